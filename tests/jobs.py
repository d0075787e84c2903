"""Run MPI jobs in subprocesses, with a time limit."""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pg_mpi import api
from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import UsageError
from pg_mpi.files import checkpoint_file, checkpoint_folder
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.mpi.launch import launcher
from pg_mpi.mpi.launch.mpirun import find_mpirun, flavour, mpirun_command
from pg_mpi.run.env_states import Layout, decode
from pg_mpi.run.resume import find_start

ROOT = Path(__file__).parents[1]
LIMIT = 180  # seconds until a job counts as hung

#: mpirun's message when its PMIx server does not start, which happens occasionally. No rank has started.
NOT_STARTED = "The PMIx server's listener thread failed to start"

#: Keys of a metrics line that may differ between identical runs.
TIMES = {"wall_s", "sps", "sps_total", "updates_per_s", "cpu_util", "gflops", "rss_mb", "restarts"}
TIMES |= {"phase_s", "phase_max_s"}

#: Settings of short runs.
SMALL = ["--hidden", "16", "--minibatch-size", "512", "--update-epochs", "2"]
STEPS = ["--sync", "steps", "--num-steps", "128", "--minibatch-size", "128"]
CARTPOLE = [*STEPS, "--env-id", "CartPole-v1"]

MPI = flavour(find_mpirun())
needs_ulfm = pytest.mark.skipif(MPI.name != "Open MPI" or MPI.major < 5, reason="ULFM is Open MPI 5's")


def small(flags):
    """The ``SMALL`` settings that apply with ``flags``: REINFORCE has no epochs and minibatches."""
    return SMALL[:2] if {"karpathy", "reinforce"} & set(flags) else SMALL


def command(ranks, module, *args, under_mpi4py=False):
    """Return the command line that runs ``module`` on ``ranks`` ranks."""
    python = [sys.executable, *(["-m", "mpi4py"] if under_mpi4py else []), "-m", module]
    return [*mpirun_command(ranks), *python, *map(str, args)]


def run(line, cwd, limit=LIMIT, code=None, **environment):
    """Run a command line to completion. If it exceeds ``limit`` seconds, kill it and fail the test.

    ``code``: fail the test if its exit code is another one.
    """
    result = finish(start(line, cwd, **environment), limit)
    if NOT_STARTED in result.stderr:
        result = finish(start(line, cwd, **environment), limit)
    assert code in (None, result.returncode), f"exit {result.returncode}: {line}\n{result.stdout}\n{result.stderr}"
    return result


def tool(module, cwd, *args, code=0, **options):
    """Run ``scaling.MODULE``, with the options of ``run``. Asserts the exit code, returns the completed process."""
    return run([sys.executable, "-m", f"scaling.{module}", *map(str, args)], cwd, code=code, **options)


def printed(result):
    """Return the JSON in the last line that a job printed."""
    return json.loads(result.stdout.splitlines()[-1])


def read_csv(path, kind, version):
    """Read a file of ``write_csv``: rows (dicts, numbers converted) and facts (dict of str)."""
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    assert first == f"# pg_mpi {kind} {version}"
    facts = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return [{name: _number(text) for name, text in row.items()} for row in rows], facts


def _number(text):
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def without(names, module, *args):
    """Return the command line that runs ``module`` as if the libraries ``names`` were not installed."""
    script = f"import runpy, sys; sys.modules.update(dict.fromkeys({list(names)})); sys.argv[0] = {module!r}; "
    script += f"runpy.run_module({module!r}, run_name='__main__')"
    return [sys.executable, "-c", script, *map(str, args)]


def finish(process, limit=LIMIT):
    """Wait for a started job. If it exceeds ``limit`` seconds, kill it and fail the test."""
    try:
        output, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        end(process)
        output, errors = process.communicate()
        raise AssertionError(f"hung for {limit} s: {process.args}\n{output}\n{errors}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def end(process):
    """Kill all processes of a job. Open MPI's ranks have their own process groups, but share mpirun's session."""
    process.kill()
    launcher.kill_session(process.pid)


def ranks_of(job):
    """Return the process ids of an Open MPI or MPICH job's ranks on this host, ordered by rank."""
    found, names = {}, (b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, StopIteration):
            if os.getsid(int(entry.name)) == job.pid:
                variables = (entry / "environ").read_bytes().split(b"\0")
                rank = next(variable for variable in variables if variable.startswith(names)).partition(b"=")[2]
                found[int(rank)] = int(entry.name)
    return [found[rank] for rank in sorted(found)]


def restore_signals():
    """Restore the default handlers of INT and HUP, which shells and nohup ignore in background processes."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start(line, cwd, **environment):
    """Start a command line in a new session, in ``cwd``, which is created if it is missing.

    The repository, ``tests/mpi`` and ``tests`` are on the ``PYTHONPATH``.
    """
    Path(cwd).mkdir(parents=True, exist_ok=True)
    path = f"{ROOT}:{ROOT / 'tests/mpi'}:{ROOT / 'tests'}"
    return subprocess.Popen(
        line,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=restore_signals,
    )


def train(ranks, cwd, *args, code=0, module="pg_mpi.train", under_mpi4py=False, **environment):
    """Train in ``cwd``/run with ``SMALL`` settings. Asserts the exit code and returns the completed process.

    ``module``: the trainer, or a script of ``tests/mpi`` that changes it.
    """
    line = command(ranks, module, "--run-dir", "run", *small(args), *args, under_mpi4py=under_mpi4py)
    return run(line, cwd, code=code, **environment)


def train_here(*flags):
    """Train in this process, on one rank without MPI, in ``run`` of the current folder with ``SMALL`` settings.

    ``flags``: each with a value.
    """
    words = ["--run-dir", "run", "--max-walltime", LIMIT, *SMALL, *flags]
    api.train({flag[2:].replace("-", "_"): value for flag, value in zip(words[::2], words[1::2])})


def train_in_turn(ranks, cwd, runs, *flags, module="pg_mpi.train", **environment):
    """Train in the run folders ``cwd``/FOLDER/run to a budget each, in one job; ``runs``: pairs (FOLDER, budget)."""
    words = [
        json.dumps(list(map(str, ["--run-dir", f"{name}/run", *small(flags), *flags, "--total-timesteps", budget])))
        for name, budget in runs
    ]
    return run(command(ranks, "in_turn", module, *words), cwd, code=0, **environment)


def train_and_resume(tmp_path, ranks, *flags, budgets, module="pg_mpi.train", **environment):
    """Train to the last budget at once, and again with a stop at the first; asserts that the results are equal.

    The second run is resumed in a job of its own. Returns the folders of both runs.
    """
    first, last = budgets
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    train_in_turn(ranks, tmp_path, [("whole", last), ("resumed", first)], *flags, module=module, **environment)
    train(ranks, resumed, *flags, "--total-timesteps", last, module=module, **environment)
    assert metrics(resumed)[-1]["restarts"] == 1
    assert os.path.basename(newest(whole)[0]) == os.path.basename(newest(resumed)[0])
    assert newest(whole)[1] == newest(resumed)[1]
    assert deterministic(whole) == deterministic(resumed)
    return whole, resumed


def metrics(cwd, run="run"):
    """Return all lines of a run's metrics file."""
    with open(Path(cwd) / run / "metrics.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def wait_for_updates(process, cwd, updates=1, run="run", seconds=60):
    """Wait until a started job has written ``updates`` metrics lines. ``run``: its run folder, or a pattern for it."""
    deadline = time.monotonic() + seconds
    while not any(path.read_bytes().count(b"\n") >= updates for path in Path(cwd).glob(f"{run}/metrics.jsonl")):
        assert process.poll() is None, finish(process)
        assert time.monotonic() < deadline, f"hung: {updates} updates are not there after {seconds} s"
        time.sleep(0.02)


def deterministic(cwd, run="run"):
    """Return the metrics without the keys that may differ between identical runs."""
    return [{k: v for k, v in line.items() if k not in TIMES} for line in metrics(cwd, run)]


def newest(cwd, run="run"):
    """Return the path and the bytes of a run's newest checkpoint, parts included."""
    path = checkpoint_folder.candidates(str(Path(cwd) / run))[0]
    return path, b"".join(Path(file).read_bytes() for file in [path, *sorted(checkpoint_folder.parts_there(path))])


def saved_states(path):
    """The states of all envs of a checkpoint, by index."""
    arrays, facts = checkpoint_file.load(path)
    layout = Layout.of(facts)
    if not layout:
        return decode(arrays, facts)[0]
    states = {}
    for number in range(layout.parts):
        states |= decode(*checkpoint_file.load(layout.part(path, number)))[0]
    return states


def assert_equal_states(one, several):
    """Assert that two checkpoints hold the same run, in whatever parts."""
    (arrays, facts), (others, their_facts) = checkpoint_file.load(one), checkpoint_file.load(several)
    for name in ("theta", "optimizer"):
        np.testing.assert_array_equal(arrays[name], others[name])
    assert facts["counters"] == their_facts["counters"]
    there, here = saved_states(one), saved_states(several)
    assert sorted(there) == sorted(here) == list(range(len(there)))
    for index, (arrays, env_facts) in there.items():
        assert env_facts == here[index][1]
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, here[index][0][name])


def refusal(main, *args):
    """Return the one-line message of the ``UsageError`` with which ``main(argv)`` of a command refuses ``args``."""
    with pytest.raises(UsageError) as refused:
        main(list(map(str, args)))
    assert "\n" not in str(refused.value)
    return str(refused.value)


def refused_start(ranks, *flags):
    """Return the message with which a start on ``ranks`` ranks refuses flags. In this process, without MPI."""

    def start(argv):
        config, given = parse_train(argv)
        folder = RunFolder(config.folder)
        try:
            find_start(folder, config, given, ranks, [])
        finally:
            folder.unlock()

    return refusal(start, "--run-dir", "run", *small(flags), *flags)


def one_line(result):
    """Return the only error line that a refused job wrote to standard error."""
    lines = [line for line in result.stderr.splitlines() if "pg_mpi: error: " in line]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr + result.stdout
    return lines[0].partition("pg_mpi: error: ")[2]
