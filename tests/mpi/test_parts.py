"""Checkpoints in parts, which the ranks write and read at the same time: here one part per rank, for 600 envs each."""

import os
import signal
from pathlib import Path

import pytest
from jobs import (
    ROOT,
    SMALL,
    STEPS,
    assert_equal_states,
    command,
    finish,
    metrics,
    newest,
    one_line,
    ranks_of,
    run,
    train,
    train_and_resume,
    wait_for_updates,
)
from jobs import end as kill_job
from jobs import start as start_job

from pg_mpi.files import checkpoint_file, checkpoint_folder
from pg_mpi.mpi.launch.mpirun import find_mpirun, flavour
from pg_mpi.run.env_states import Layout

pytestmark = pytest.mark.mpi

CARTPOLE = ["--env-id", "CartPole-v1", "--sync", "steps", "--num-steps", 8, "--minibatch-size", 4096]
UPDATE = 8 * 1800  # steps of all envs


def parts(path):
    """The names of the parts of a checkpoint."""
    return sorted(map(os.path.basename, checkpoint_folder.parts_there(path)))


def test_resume_is_bit_exact(tmp_path):
    whole, _ = train_and_resume(tmp_path, 2, *CARTPOLE, "--envs-per-rank", 600, budgets=(9600, 28800))
    path, _ = newest(whole)
    assert parts(path) == ["ranks-000000-000000-of-2.npz", "ranks-000001-000001-of-2.npz"]


def test_any_number_of_ranks_resumes_parts(tmp_path):
    """Three ranks write parts, one rank one file, two ranks parts: in the end the run equals that of one rank."""
    whole, dealt = tmp_path / "whole", tmp_path / "dealt"
    whole.mkdir(), dealt.mkdir()
    flags = [*CARTPOLE, "--reproducible"]
    train(1, whole, *flags, "--envs-per-rank", 1800, "--total-timesteps", 4 * UPDATE)
    found = []
    for ranks, updates, more in ((3, 1, ["--envs-per-rank", 600]), (1, 2, []), (2, 3, []), (3, 4, [])):
        train(ranks, dealt, *flags, *more, "--total-timesteps", updates * UPDATE)
        layout = Layout.of(checkpoint_file.load(newest(dealt)[0])[1])
        found.append(layout and layout.parts)
    assert found == [3, None, 2, 3]
    assert_equal_states(newest(whole)[0], newest(dealt)[0])


@pytest.mark.skipif(flavour(find_mpirun()).name != "Open MPI", reason="ULFM is Open MPI's")
def test_parts_after_the_loss_of_a_rank(tmp_path):
    """The envs of rank 0 are dealt to the others, so they are not in order in the parts."""
    whole, shrunk = tmp_path / "whole", tmp_path / "shrunk"
    whole.mkdir(), shrunk.mkdir()
    flags = [*CARTPOLE, "--envs-per-rank", 600, "--reproducible", "--total-timesteps"]
    train(3, whole, *flags, 6 * UPDATE)
    launcher, *line = command(3, "pg_mpi.train", "--run-dir", "run", *SMALL, *flags, 5 * UPDATE, "--elastic")
    job = start_job([launcher, "--with-ft", "ulfm", *line], shrunk)
    wait_for_updates(job, shrunk, 2)
    os.kill(ranks_of(job)[0], signal.SIGKILL)
    result = finish(job, 60)
    assert result.returncode == 0 and "lost rank 0 of 3: 2 left" in result.stdout, result.stdout + result.stderr
    path, _ = newest(shrunk)
    layout = Layout.of(checkpoint_file.load(path)[1])
    assert layout == Layout(envs=1800, ranks=2, group=1)
    index = checkpoint_file.load(layout.part(path, 0))[0]["index"]
    assert sorted(index) != list(range(900)), "the test moves no env"
    train(3, shrunk, *CARTPOLE, "--reproducible", "--total-timesteps", 6 * UPDATE)
    assert_equal_states(newest(whole)[0], newest(shrunk)[0])


def test_replay_is_resumed_bit_exact(tmp_path):
    """A group has at most eight ranks with ``--replay``, so nine ranks have two parts."""
    flags = ["--replay", "--max-frames", 200, *STEPS]
    whole, _ = train_and_resume(tmp_path, 9, *flags, budgets=(2000, 4000))
    path, _ = newest(whole)
    assert parts(path) == ["ranks-000000-000007-of-9.npz", "ranks-000008-000008-of-9.npz"]
    last, _ = checkpoint_file.load(os.path.join(checkpoint_folder.parts_of(path), "ranks-000008-000008-of-9.npz"))
    assert len(last["replay_8_returns"]) > 0


def damage(path):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        file.write(b"damage")


@pytest.mark.parametrize(
    "harm, reason", [(damage, "is not a usable checkpoint: "), (os.remove, "ranks-000001-000001-of-2.npz is missing")]
)
def test_checkpoint_with_an_unusable_part_is_skipped(tmp_path, harm, reason):
    flags = [*CARTPOLE, "--checkpoint-every", 1]
    train(2, tmp_path, *flags, "--envs-per-rank", 600, "--total-timesteps", 28800)
    path, before = newest(tmp_path)
    harm(os.path.join(checkpoint_folder.parts_of(path), "ranks-000001-000001-of-2.npz"))
    result = train(2, tmp_path, *flags, "--total-timesteps", 28800)
    warnings = [line for line in result.stderr.splitlines() if "warning" in line]
    assert len(warnings) == 1 and reason in warnings[0], result.stderr
    assert newest(tmp_path) == (path, before), "the update was not played again"
    assert Path(path + ".damaged").exists() and Path(checkpoint_folder.parts_of(path) + ".damaged").is_dir()


def test_no_checkpoint_with_usable_parts_is_an_error_that_leaves_all_files(tmp_path):
    train(2, tmp_path, *CARTPOLE, "--envs-per-rank", 600, "--total-timesteps", 9600)
    path, _ = newest(tmp_path)
    damage(os.path.join(checkpoint_folder.parts_of(path), "ranks-000000-000000-of-2.npz"))
    _, before = newest(tmp_path)
    result = train(2, tmp_path, *CARTPOLE, "--total-timesteps", 28800, code=2)
    assert "no usable checkpoint" in one_line(result) and newest(tmp_path) == (path, before)


def test_error_of_one_writer_is_one_line_and_keeps_the_older_checkpoint(tmp_path):
    """From the third update on rank 1 can write no file of the size of a part."""
    flags = [*CARTPOLE, "--envs-per-rank", 600, "--checkpoint-every", 2, "--total-timesteps", 10**7]
    line = command(2, "faults", "small files", "--run-dir", "run", *SMALL, *flags)
    result = run(line, tmp_path, PYTHONPATH=f"{ROOT}:{Path(__file__).parent}")
    assert result.returncode == 1
    message = one_line(result)
    assert "ranks-000001-000001-of-2.npz cannot be written (File too large)" in message, message
    assert message.endswith("resume from the beginning (there is no checkpoint)")
    assert not list(tmp_path.rglob("step-*.npz"))


def test_killed_while_parts_are_written(tmp_path):
    """Kills at any time leave a checkpoint that resumes, and parts without their file are removed."""
    flags = [*CARTPOLE, "--envs-per-rank", 600, "--checkpoint-every", 1, "--total-timesteps", 10**7]
    for tries in range(4):
        process = start_job(command(2, "pg_mpi.train", "--run-dir", "run", *SMALL, *flags), tmp_path)
        before = len(metrics(tmp_path)) if tries else 0
        wait_for_updates(process, tmp_path, before + 3)
        kill_job(process)
        process.wait()
    lines = train(2, tmp_path, *CARTPOLE, "--checkpoint-every", 1, "--max-walltime", 4, code=75).stdout
    assert "resumed" in lines
    folders = {path.name for path in (tmp_path / "run" / "checkpoints").glob("*.parts")}
    assert folders == {Path(checkpoint_folder.parts_of(path)).name for path in kept(tmp_path)}


def kept(cwd):
    return checkpoint_folder.candidates(str(cwd / "run"))


def test_evaluate_needs_no_parts(tmp_path):
    train(2, tmp_path, *CARTPOLE, "--envs-per-rank", 600, "--total-timesteps", 9600)
    path, _ = newest(tmp_path)
    alone = tmp_path / "alone.npz"
    alone.write_bytes(Path(path).read_bytes())
    result = run(command(1, "pg_mpi.evaluate", alone, "--games", 2), tmp_path)
    assert result.returncode == 0, result.stderr
    refused = train(2, tmp_path, *CARTPOLE, "--run-dir", "other", "--resume", alone, code=2)
    assert "ranks-000000-000000-of-2.npz is missing" in refused.stderr and "no usable checkpoint" in one_line(refused)
