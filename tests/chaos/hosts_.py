"""Cut and slow links between hosts. Needs root: the hosts are namespaces (tests/batch/hosts.py)."""

import contextlib
import os
import sys
import time
from pathlib import Path

from jobs import STEPS, command, finish, newest, run, start
from outcome import fault

sys.path.append(str(Path(__file__).parents[1] / "batch"))

from hosts import Hosts  # noqa: E402

RUN = ["--hidden", "16", "--update-epochs", "2", *STEPS, "--seed", "7"]
WATCHDOG = 5


@contextlib.contextmanager
def _hosts(folder, count):
    with Hosts(count, folder) as hosts:
        hosts.environment = {
            "TMPDIR": str(hosts.local),
            "PRTE_MCA_plm_ssh_args": f"-F {hosts.serve_ssh()}",
            "PRTE_MCA_hwloc_default_binding_policy": "none",
        }
        yield hosts


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
        with outcome.attempt(), _hosts(cwd, 2) as hosts:
            job = _launch(hosts, cwd, ["n1", "n2"], "--run-dir", "run", *RUN, "--watchdog", str(WATCHDOG))
            _wait(lambda: _updates(cwd) > 3, 40, "the first updates")  # noqa: B023 called in this iteration
            hosts.cut("n2")
            begun = time.monotonic()
            _wait(lambda: not _ranks(hosts), WATCHDOG + 10, "the ranks to end")  # noqa: B023
            outcome.worst = max(outcome.worst, time.monotonic() - begun)
            assert time.monotonic() - begun < WATCHDOG + 3, "hung: ranks ran after the limit of the watchdog"
            ended = finish(job, 120)
            assert ended.returncode not in (0, 75), f"wrong: exit {ended.returncode}"
            assert "saw no update end for 5 s" in ended.stderr, f"wrong: {ended.stderr}"


def _updates(cwd):
    """Return the number of metrics lines."""
    path = cwd / "run/metrics.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def _ranks(hosts):
    """Return the command lines of the ranks, without their launchers."""
    return [
        line for line in hosts.processes().values() if "-m pg_mpi.train" in line and line.startswith(sys.executable)
    ]


def _wait(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"hung: waited {seconds} s for {what}"
        time.sleep(0.1)


@fault("--reproducible on 4, 2+2 and 3+1 hosts, on slow links too", tries=4)
def host_layouts(outcome, folder, tries, seed):
    if os.geteuid():
        return
    words = [*RUN, "--reproducible", "--total-timesteps", str(4 * 128 * 6)]
    whole = run(command(1, "pg_mpi.train", "--run-dir", "whole", "--envs-per-rank", 4, *words), folder)
    assert whole.returncode == 0, whole.stderr
    layouts = (["n1"] * 4, ["n1", "n1", "n2", "n2"], ["n1", "n1", "n1", "n2"], ["n1", "n2", "n3", "n4"])
    with _hosts(folder, 4) as hosts:
        for number, slots in zip(range(tries), layouts):
            with outcome.attempt():
                hosts.shape(100 if number == 3 else None)
                done = finish(_launch(hosts, folder, slots, "--run-dir", f"run-{number}", *words), 120)
                assert done.returncode == 0, f"wrong: exit {done.returncode} {done.stderr}"
                assert newest(folder, f"run-{number}")[1] == newest(folder, "whole")[1], (
                    f"wrong: the checkpoint differs on {slots}"
                )
