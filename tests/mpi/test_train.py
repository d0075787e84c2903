"""Training runs with and without ``-m mpi4py``: run folders, budgets and settings."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest
from jobs import CARTPOLE, command, metrics, newest, train, train_here

from pg_mpi import THREAD_VARIABLES
from pg_mpi.files import checkpoint_file, checkpoint_folder

METRICS = set(
    re.findall(
        r"\w+",
        """update env_steps frames games wall_s sps sps_total return_mean return_ci95 return_last length_mean
        entropy reward_sum reward_count policy_loss value_loss approx_kl clip_fraction grad_norm grad_signal
        grad_variance learning_rate ranks exchanges bytes_exchanged
        updates_per_s cpu_util gflops rss_mb restarts emulator_errors skipped_updates phase_s phase_max_s""",
    )
)
PHASES = {"emulator", "reset", "features", "inference", "gradient", "allreduce", "wait", "optimizer", "record"}


@pytest.mark.parametrize("ranks, under_mpi4py", [(1, False), (3, True)])
def test_run_folder_content(tmp_path, ranks, under_mpi4py):
    result = train(ranks, tmp_path, "--total-timesteps", 4000, "--log-interval", 0.1, under_mpi4py=under_mpi4py)
    assert "\r" not in result.stdout and "\x1b" not in result.stdout, "control characters in a batch log"
    assert "steps/s" in result.stdout and "1 BLAS thread" in result.stdout
    lines = metrics(tmp_path)
    assert len(lines) > 1
    for number, line in enumerate(lines, start=1):
        assert line.keys() == METRICS
        assert line["phase_s"].keys() == line["phase_max_s"].keys() == PHASES
        assert line["update"] == number and line["ranks"] == ranks
        assert line["frames"] == 4 * line["env_steps"]
        assert -21 <= line["return_mean"] <= 21
        assert line["phase_s"]["emulator"] > 0 and line["gflops"] > 0 and line["bytes_exchanged"] > 0
        assert all(line["phase_max_s"][phase] >= mean * 0.999999 for phase, mean in line["phase_s"].items())
    assert lines[0]["games"] == ranks
    for before, line in zip(lines, lines[1:]):
        assert before["games"] <= line["games"] <= before["games"] + 2 * ranks
        assert sum(line["phase_s"].values()) <= 1.01 * (line["wall_s"] - before["wall_s"])
    assert lines[-2]["env_steps"] < 4000 <= lines[-1]["env_steps"]
    assert lines[-1]["exchanges"] > len(lines)
    done = json.loads((tmp_path / "run" / "DONE").read_text())
    assert "steps played" in done["reason"]
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["settings"]["hidden"] == 16
    of_ranks = json.loads((tmp_path / "run" / "ranks.json").read_text())
    assert (of_ranks["start"], of_ranks["update"]) == (0, len(lines))
    assert len(of_ranks["phase_s"]["wait"]) == len(of_ranks["slowest"]) == ranks
    start = config["starts"][0]
    assert start["ranks"] == ranks == start["places"]["by_host"][0]["ranks"]
    assert [(row["threads"], row["ranks"]) for row in start["places"]["by_kind"]] == [(1, ranks)]


def test_finished_run_continues_only_with_a_larger_budget(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    train_here(*CARTPOLE, "--total-timesteps", 2000)
    before = newest(tmp_path)
    capsys.readouterr()
    train_here(*CARTPOLE, "--total-timesteps", 2000)
    assert "finished: " in capsys.readouterr().out
    assert newest(tmp_path) == before
    *lines, last = metrics(tmp_path)
    longer = [*lines, last | {"wall_s": 1000.0}]  # more than the walltime, which is that of a start
    (tmp_path / "run/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in longer))
    train_here(*CARTPOLE, "--total-timesteps", 6000)
    last = metrics(tmp_path)[-1]
    assert last["env_steps"] >= 6000 and last["restarts"] == 2
    assert last["wall_s"] > 1000, "wall_s is that of all starts together"


def test_change_of_versions_since_the_last_start_is_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    train_here(*CARTPOLE, "--total-timesteps", 500)
    path = tmp_path / "run/config.json"
    config = json.loads(path.read_text())
    config["starts"][-1]["versions"]["numpy"] = "0.9"
    path.write_text(json.dumps(config))
    assert "changed since" not in capsys.readouterr().out
    train_here(*CARTPOLE, "--total-timesteps", 1000)
    assert "changed since the last start, so bits may differ: numpy 0.9" in capsys.readouterr().out


def test_target_return_needs_100_games(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train_here(*CARTPOLE, "--envs-per-rank", 8, "--target-return", 1)
    done = json.loads((tmp_path / "run" / "DONE").read_text())
    assert "target 1 reached" in done["reason"]
    assert metrics(tmp_path)[-2]["games"] < 100 <= metrics(tmp_path)[-1]["games"]


def test_checkpoint_interval_and_learning_rate_annealing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = [*CARTPOLE, "--envs-per-rank", 2, "--total-timesteps", 3000, "--checkpoint-every", 5]
    annealing = ["--anneal-timesteps", 2560, "--learning-rate", 0.01]
    train_here(*flags, *annealing, "--keep-checkpoints", 99)
    saved = [
        checkpoint_file.load(path)[1]["counters"]["env_steps"]
        for path in checkpoint_folder.candidates(str(tmp_path / "run"))
    ]
    assert sorted(saved) == [1280, 2560, 3072]
    rates = [line["learning_rate"] for line in metrics(tmp_path)]
    assert rates == pytest.approx([0.01 * (1 - 0.09 * update) for update in range(11)] + [0.001])


def test_max_walltime_includes_the_startup_and_exits_75(tmp_path):
    begun = time.monotonic()
    result = train(2, tmp_path, *CARTPOLE, "--max-walltime", "00:00:05", code=75)
    assert time.monotonic() - begun >= 5
    assert "walltime budget of 5 s" in result.stdout and "run the same command again to resume" in result.stdout
    before = [line["wall_s"] for line in metrics(tmp_path)[:-1]]
    assert all(wall < 5 for wall in before), "the first update that exceeds the budget is the last, start-up included"
    assert not (tmp_path / "run" / "DONE").exists()


def test_progress_arrives_on_a_terminal_while_the_run_goes_on(tmp_path):
    """mpirun keeps the beginning of a line until the line ends."""
    line = command(2, "pg_mpi.train", *CARTPOLE, "--run-dir", "run", "--log-interval", "0.1")
    process, master = pty.fork()
    if not process:
        os.chdir(tmp_path)
        os.execvp(line[0], line)
    output, deadline = b"", time.monotonic() + 60
    try:
        while output.count(b"\x1b[A\x1b[K") < 3:
            assert time.monotonic() < deadline, output.decode()
            if select.select([master], [], [], 1)[0]:
                output += os.read(master, 1 << 16)
    finally:
        os.kill(process, signal.SIGTERM)
        os.close(master)
        os.waitpid(process, 0)
    assert b"update 1 " in output


def test_tensorboard_files_of_two_starts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train_here(*CARTPOLE, "--track", "tensorboard", "--total-timesteps", 1000)
    train_here(*CARTPOLE, "--track", "tensorboard", "--total-timesteps", 3000)
    files = list((tmp_path / "run" / "tensorboard").iterdir())
    assert len(files) == 2, "one file for each start"
    content = b"".join(file.read_bytes() for file in files)
    for tag in (b"charts/episodic_return", b"charts/SPS", b"losses/policy_loss"):
        assert content.count(tag) == len(metrics(tmp_path))


@pytest.mark.parametrize("asked, threads", [({}, "1"), ({"OMP_NUM_THREADS": "3"}, "3")], ids=["unset", "OpenMP's"])
def test_thread_variables_that_are_unset_get_the_value_of_openmps(asked, threads):
    code = "import os, pg_mpi; print(*(os.environ[name] for name in pg_mpi.THREAD_VARIABLES))"
    kept = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    found = subprocess.run([sys.executable, "-c", code], env=kept | asked, capture_output=True, text=True, timeout=60)
    assert found.stdout.split() == [threads] * 4, found.stderr


def test_blas_threads_set_by_the_user_are_kept(tmp_path):
    # With 3 ranks on a small machine the ranks are not bound to one core each.
    result = train(3, tmp_path, *CARTPOLE, "--total-timesteps", 1, OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2")
    assert "2 BLAS threads" in result.stdout
