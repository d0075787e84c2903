"""Checkpoints in parts, which the ranks write and read at the same time: here one part per rank, for six envs each."""

import functools
import os
from pathlib import Path

import jobs
import pytest
from jobs import (
    SMALL,
    STEPS,
    assert_equal_states,
    command,
    deterministic,
    metrics,
    needs_ulfm,
    newest,
    one_line,
    run,
    wait_for_updates,
)

from pg_mpi.files import checkpoint_file, checkpoint_folder
from pg_mpi.run.env_states import Layout

CARTPOLE = ["--env-id", "CartPole-v1", "--sync", "steps", "--num-steps", 8, "--minibatch-size", 48]
EACH = ["--envs-per-rank", 6]
ON_2, ON_3 = 2 * 6 * 8, 3 * 6 * 8  # steps of an update of the envs of 2 and 3 ranks

train = functools.partial(jobs.train, module="small_parts")
train_and_resume = functools.partial(jobs.train_and_resume, module="small_parts")


def parts(path):
    """The names of the parts of a checkpoint."""
    return sorted(map(os.path.basename, checkpoint_folder.parts_there(path)))


def test_resume_is_bit_exact(tmp_path):
    whole, _ = train_and_resume(tmp_path, 2, *CARTPOLE, *EACH, budgets=(ON_2, 3 * ON_2))
    path, _ = newest(whole)
    assert parts(path) == ["ranks-000000-000000-of-2.npz", "ranks-000001-000001-of-2.npz"]


def test_any_number_of_ranks_resumes_parts(tmp_path):
    """Three ranks write parts, one rank one file, two ranks parts: in the end the run equals that of one rank."""
    whole, dealt = tmp_path / "whole", tmp_path / "dealt"
    flags = [*CARTPOLE, "--reproducible"]
    train(1, whole, *flags, "--envs-per-rank", 18, "--total-timesteps", 4 * ON_3)
    found = []
    for ranks, updates, more in ((3, 1, EACH), (1, 2, []), (2, 3, []), (3, 4, [])):
        train(ranks, dealt, *flags, *more, "--total-timesteps", updates * ON_3)
        layout = Layout.of(checkpoint_file.load(newest(dealt)[0])[1])
        found.append(layout and layout.parts)
    assert found == [3, None, 2, 3]
    assert_equal_states(newest(whole)[0], newest(dealt)[0])


@needs_ulfm
def test_parts_after_the_loss_of_a_rank(tmp_path):
    """The envs of rank 0 are dealt to the others, so they are not in order in the parts."""
    whole, shrunk = tmp_path / "whole", tmp_path / "shrunk"
    flags = [*CARTPOLE, *EACH, "--reproducible", "--total-timesteps"]
    train(3, whole, *flags, 6 * ON_3)
    launcher, *line = command(
        3, "small_parts", "kill:record,0", "--run-dir", "run", *SMALL, *flags, 5 * ON_3, "--elastic"
    )
    result = run([launcher, "--with-ft", "ulfm", *line], shrunk, code=0)
    assert "lost rank 0 of 3: 2 left" in result.stdout, result.stdout + result.stderr
    path, _ = newest(shrunk)
    layout = Layout.of(checkpoint_file.load(path)[1])
    assert layout == Layout(envs=18, ranks=2, group=1)
    index = checkpoint_file.load(layout.part(path, 0))[0]["index"]
    assert sorted(index) != list(range(9)), "the test moves no env"
    train(3, shrunk, *CARTPOLE, "--reproducible", "--total-timesteps", 6 * ON_3)
    assert_equal_states(newest(whole)[0], newest(shrunk)[0])
    assert [{**line, "ranks": 3} for line in deterministic(shrunk)] == deterministic(whole)


def test_replay_is_resumed_bit_exact(tmp_path):
    """Two ranks share a part, the third has one of its own."""
    flags = ["--replay", "--max-frames", 200, *STEPS]
    whole, _ = train_and_resume(tmp_path, 3, *flags, budgets=(600, 1400))
    path, _ = newest(whole)
    assert parts(path) == ["ranks-000000-000001-of-3.npz", "ranks-000002-000002-of-3.npz"]
    last, _ = checkpoint_file.load(os.path.join(checkpoint_folder.parts_of(path), "ranks-000002-000002-of-3.npz"))
    assert len(last["replay_2_returns"]) > 0


def damage(path):
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        file.write(b"damage")


@pytest.mark.parametrize(
    "harm, reason", [(damage, "is not a usable checkpoint: "), (os.remove, "ranks-000001-000001-of-2.npz is missing")]
)
def test_checkpoint_with_an_unusable_part_is_skipped(tmp_path, harm, reason):
    flags = [*CARTPOLE, "--checkpoint-every", 1]
    train(2, tmp_path, *flags, *EACH, "--total-timesteps", 3 * ON_2)
    path, before = newest(tmp_path)
    harm(os.path.join(checkpoint_folder.parts_of(path), "ranks-000001-000001-of-2.npz"))
    result = train(2, tmp_path, *flags, "--total-timesteps", 3 * ON_2)
    warnings = [line for line in result.stderr.splitlines() if "warning" in line]
    assert len(warnings) == 1 and reason in warnings[0], result.stderr
    assert newest(tmp_path) == (path, before), "the update was not played again"
    assert Path(path + ".damaged").exists() and Path(checkpoint_folder.parts_of(path) + ".damaged").is_dir()


def test_no_checkpoint_with_usable_parts_is_an_error_that_leaves_all_files(tmp_path):
    train(2, tmp_path, *CARTPOLE, *EACH, "--total-timesteps", ON_2)
    path, _ = newest(tmp_path)
    damage(os.path.join(checkpoint_folder.parts_of(path), "ranks-000000-000000-of-2.npz"))
    _, before = newest(tmp_path)
    result = train(2, tmp_path, *CARTPOLE, "--total-timesteps", 3 * ON_2, code=2)
    assert "no usable checkpoint" in one_line(result) and newest(tmp_path) == (path, before)


def test_error_of_one_writer_is_one_line_and_keeps_the_older_checkpoint(tmp_path):
    """From the second update on rank 1 can write no file of the size of a part."""
    flags = [*CARTPOLE, *EACH, "--checkpoint-every", 2, "--total-timesteps", 10**7]
    result = run(command(2, "small_parts", "small files", "--run-dir", "run", *SMALL, *flags), tmp_path, code=1)
    message = one_line(result)
    assert "ranks-000001-000001-of-2.npz cannot be written (File too large)" in message, message
    assert message.endswith("resume from the beginning (there is no checkpoint)")
    assert not list(tmp_path.rglob("step-*.npz"))


def test_killed_while_parts_are_written(tmp_path):
    """Kills at any time leave a checkpoint that resumes, and parts without their file are removed."""
    flags = [*CARTPOLE, "--checkpoint-every", 1, "--total-timesteps"]
    for tries in range(3):
        process = jobs.start(command(2, "small_parts", "--run-dir", "run", *SMALL, *EACH, *flags, 10**7), tmp_path)
        before = len(metrics(tmp_path)) if tries else 0
        wait_for_updates(process, tmp_path, before + 3)
        jobs.end(process)
        process.wait()
    last = metrics(tmp_path)[-1]["env_steps"]
    assert "resumed" in train(2, tmp_path, *flags, last + 2 * ON_2).stdout
    folders = {path.name for path in (tmp_path / "run" / "checkpoints").glob("*.parts")}
    assert folders == {Path(checkpoint_folder.parts_of(path)).name for path in kept(tmp_path)}


def kept(cwd):
    return checkpoint_folder.candidates(str(cwd / "run"))


def test_evaluate_needs_no_parts(tmp_path, monkeypatch, capsys):
    train(2, tmp_path, *CARTPOLE, *EACH, "--total-timesteps", ON_2)
    path, _ = newest(tmp_path)
    alone = tmp_path / "alone.npz"
    alone.write_bytes(Path(path).read_bytes())
    run(command(1, "pg_mpi.evaluate", alone, "--games", 2), tmp_path, code=0)
    monkeypatch.chdir(tmp_path)
    refused = jobs.refused_start(2, *CARTPOLE, "--run-dir", "other", "--resume", alone)
    assert "no usable checkpoint" in refused and "ranks-000000-000000-of-2.npz is missing" in capsys.readouterr().err
