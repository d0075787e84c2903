"""Cut and slow links between hosts. Needs root: the hosts are namespaces (tests/batch/hosts.py)."""

import os
import sys
import time
from pathlib import Path

from jobs import STEPS, assert_equal_states, finish, newest, start, wait_for_updates
from outcome import fault, train_whole

sys.path.append(str(Path(__file__).parents[1] / "batch"))

from hosts import Hosts, wait_for  # noqa: E402

RUN = ["--hidden", "16", "--update-epochs", "2", *STEPS, "--seed", "7"]
WATCHDOG = 5


def _launch(hosts, folder, slots, *words):
    """Start the trainer on the first host, with a rank for each name of ``slots``."""
    nodes = folder / f"nodes-{time.monotonic_ns()}"
    nodes.write_text("".join(f"{name}\n" for name in slots), encoding="utf-8")
    launcher = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", str(len(slots)), "--", "pg_mpi.train"]
    return start(hosts.command("n1", *launcher, *words), folder, PBS_NODEFILE=str(nodes), **hosts.environment)


@fault("a link between two hosts cut for good (watchdog of 5 s)", tries=2, full=10)
def cut_link(outcome, folder, tries, seed):
    """The watchdogs end the ranks on both sides, then the launcher ends mpirun."""
    if os.geteuid():
        return
    for number in range(tries):
        cwd = folder / str(number)
        cwd.mkdir()
        with outcome.attempt(), Hosts(2, cwd) as hosts:
            hosts.serve_ssh()
            job = _launch(hosts, cwd, ["n1", "n2"], "--run-dir", "run", *RUN, "--watchdog", str(WATCHDOG))
            wait_for_updates(job, cwd, 4, seconds=40)
            hosts.cut("n2")
            begun = time.monotonic()
            wait_for(lambda: not _ranks(hosts), WATCHDOG + 10, "the ranks to end")  # noqa: B023 called in this iteration
            outcome.worst = max(outcome.worst, time.monotonic() - begun)
            assert time.monotonic() - begun < WATCHDOG + 3, "hung: ranks ran after the limit of the watchdog"
            ended = finish(job, 120)
            assert ended.returncode not in (0, 75), f"wrong: exit {ended.returncode}"
            assert "saw no update end for 5 s" in ended.stderr, f"wrong: {ended.stderr}"


def _ranks(hosts):
    """Return the command lines of the ranks, without their launchers."""
    return [
        line for line in hosts.processes().values() if "-m pg_mpi.train" in line and line.startswith(sys.executable)
    ]


@fault("--reproducible on 4, 2+2 and 3+1 hosts, on slow links too", tries=4)
def host_layouts(outcome, folder, tries, seed):
    if os.geteuid():
        return
    words = [*RUN, "--reproducible", "--total-timesteps", str(4 * 128 * 6)]
    train_whole(folder, 1, "--envs-per-rank", 4, *words)
    layouts = (["n1"] * 4, ["n1", "n1", "n2", "n2"], ["n1", "n1", "n1", "n2"], ["n1", "n2", "n3", "n4"])
    with Hosts(4, folder) as hosts:
        hosts.serve_ssh()
        for number, slots in zip(range(tries), layouts):
            with outcome.attempt():
                hosts.shape(100 if number == 3 else None)
                done = finish(_launch(hosts, folder, slots, "--run-dir", f"run-{number}", *words), 120)
                assert done.returncode == 0, f"wrong: exit {done.returncode} {done.stderr}"
                # runs on several hosts have their checkpoints in parts
                assert_equal_states(newest(folder, "whole")[0], newest(folder, f"run-{number}")[0])
