"""Faults of the file system: the N-th call on the run folder fails, for each kind of call and each N."""

import json
import random
import shutil
import sys
from pathlib import Path

from faulty_fs import KINDS, Mounted, usable
from jobs import assert_equal_states, finish, newest, one_line, printed, run, start, wait_for_updates
from outcome import fault

from pg_mpi.mpi.launch.mpirun import mpirun_command

ERRORS = {"EIO": 75, "ENOSPC": 75, "ESTALE": 75, "EACCES": 1}  # and the exit code asked for
FLAGS = ["--env-id", "CartPole-v1", "--hidden", "4", "--num-steps", "64", "--checkpoint-every", "1"]
HALF, WHOLE = "512", "1024"  # agent steps
SPACE = "[learning_rate]\nlow = 1e-4\nhigh = 1e-3\nlog = true\n"


def line(command, run_folder, budget=WHOLE):
    """The command line of a module of ours on a run folder. Python itself reads nothing there.

    ``parts``: trains on two ranks, with a part of the checkpoints for each. ``tune``: plays one trial, or two.
    """
    if command == "parts":
        flags = [*FLAGS, "--envs-per-rank", "2", "--total-timesteps", budget, "--run-dir", str(run_folder)]
        return [*mpirun_command(2), sys.executable, "-m", "small_parts", *flags]
    if command == "tune":
        space = run_folder.parents[1] / "space.toml"
        space.write_text(SPACE)
        flags = ["--space", str(space), "--study", str(run_folder / "tune.journal"), "--json", "--budget", "0.2"]
        trials = "1" if budget == HALF else "2"
        return [sys.executable, "-m", "pg_mpi.tune", *flags, "--trials", trials, *FLAGS]
    more = {"train": [*FLAGS, "--total-timesteps", budget, "--run-dir"], "evaluate": ["--games", "2"], "report": []}
    return [sys.executable, "-m", f"pg_mpi.{command}", *more[command], str(run_folder)]


#: Each command, and whether the folder holds a run.
COMMANDS = (
    ("train", False),
    ("train", True),
    ("evaluate", True),
    ("report", True),
    ("parts", False),
    ("parts", True),
    ("tune", False),
    ("tune", True),
)


def updates(run_folder):
    """The updates in a run's metrics. A failed write may leave half a line at the end, which the next start removes."""
    lines = (run_folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    return [json.loads(each)["update"] for each in lines if each.endswith("\n")]


def check_kept(backing, before, command):
    """Assert that a run folder has lost nothing: its checkpoint, its metrics, its name; a study, no line."""
    if command == "tune":
        assert (backing / "run" / "tune.journal").read_bytes().startswith(before), "lost: lines of the journal"
        return
    there = content(backing)
    assert {path: there.get(path) for path in before} == before, "lost: the newest checkpoint is gone or differs"
    assert not list((backing / "run").rglob("*.damaged*")), "lost: a good file is set aside"
    assert updates(backing / "run")[:2] == [1, 2], "lost: metrics are gone"


def content(place):
    """The bytes of the checkpoints and their parts, by path."""
    return {str(path.relative_to(place)): path.read_bytes() for path in (place / "run").rglob("*.npz")}


@fault("file system: the N-th call on the run folder fails (root only)", tries=8, full=2400)
def failing_calls(outcome, folder, tries, seed):
    """Trains, resumes, evaluates, reports and tunes on a FUSE file system, then runs the same without the fault."""
    if not usable():
        return
    for command in ("train", "parts", "tune"):
        for name, budget in (("half", HALF), ("whole", WHOLE)):
            (folder / command / name / "run").mkdir(parents=True)
            run(line(command, folder / command / name / "run", budget), folder, code=0)
    with Mounted(folder / "fs") as mounted:
        for case in cases(mounted, folder, tries, seed):
            with outcome.attempt():
                attempt(mounted, folder, *case)


def cases(mounted, folder, tries, seed):
    """``tries`` of all (command, whether the folder holds a run, rule), in random order.

    As many are of each command and kind of call: most calls look for a file, and would hide the rest.
    """
    found, rng = [], random.Random(seed)
    for command, begun in COMMANDS:
        prepare(mounted, folder, command, begun)
        mounted.set()
        run(line(command, mounted.folder / "run"), folder, code=0)
        calls = [call["kind"] for call in mounted.log()]
        for kind in KINDS:
            rules = [
                (command, begun, {"kind": kind, "first": first, "error": error, "ever": ever})
                for first in range(calls.count(kind))
                for error in ERRORS
                for ever in (False, True)
            ]
            rng.shuffle(rules)
            found += [(number, rng.random(), rule) for number, rule in enumerate(rules)]
    found = [case for *_, case in sorted(found, key=lambda each: each[:2])]
    print(f"    {len(found):,} calls and errors, {min(tries, len(found)):,} of them tried", file=sys.stderr, flush=True)
    return found[:tries]


def prepare(mounted, folder, command, begun):
    """Put the half run, or nothing, into the mounted folder."""
    mounted.set()
    shutil.rmtree(mounted.backing)
    mounted.backing.mkdir()
    if begun:
        half = folder / (command if command in ("parts", "tune") else "train") / "half"
        shutil.copytree(half / "run", mounted.backing / "run")


def attempt(mounted, folder, command, begun, rule):
    """Run a command with failing calls, check what is left, and run it again without."""
    prepare(mounted, folder, command, begun)
    if command == "tune":
        before = (mounted.backing / "run" / "tune.journal").read_bytes() if begun else b""
    else:
        stem = Path(newest(mounted.backing)[0]).stem if begun else ""
        before = {path: data for path, data in content(mounted.backing).items() if stem in path}
    mounted.set(**rule)
    result = run(line(command, mounted.folder / "run"), folder)
    case = f"{command} {'resumed' if begun else 'new'} {rule}"
    mounted.set()
    if result.returncode:
        assert result.returncode == ERRORS[rule["error"]], f"wrong: {case}: exit {result.returncode} {result.stderr}"
        one_line(result)
    if begun:
        check_kept(mounted.backing, before, command)
    again = run(line(command, mounted.folder / "run"), folder)
    assert again.returncode == 0, f"wrong: {case}: then exit {again.returncode} {again.stderr}"
    if command == "tune":
        trials = printed(again)["trials"]
        assert [trial["slot"] for trial in trials] == [0, 1], f"lost: {case}: {trials}"
        assert {trial["state"] for trial in trials} <= {"complete", "pruned"}, f"wrong: {case}: {trials}"
    elif command in ("train", "parts"):
        try:
            assert_equal_states(*(newest(place)[0] for place in (mounted.folder, folder / command / "whole")))
        except AssertionError as error:
            raise AssertionError(f"wrong: {case}: other bits in the end: {error}") from None
        assert updates(mounted.backing / "run") == [1, 2, 3, 4], f"lost: {case}: metrics"
        left = [path.name for path in (mounted.backing / "run").rglob("*") if path.suffix in (".tmp", ".damaged")]
        assert not left, f"wrong: {case}: {left} remain"


@fault("file system: two trainers where it has no locks (root only)", tries=1, full=10)
def no_locks(outcome, folder, tries, seed):
    """The second continues, and the first writes nothing more."""
    take_over(outcome, folder, tries, locks=False)


@fault("file system: two trainers where every lock is granted (root only)", tries=1, full=10)
def granted_locks(outcome, folder, tries, seed):
    """The same."""
    take_over(outcome, folder, tries, locks="lie")


def take_over(outcome, folder, tries, locks):
    """Start a second trainer while the first one trains."""
    if not usable():
        return
    with Mounted(folder / "fs") as mounted:
        for number in range(tries):
            with outcome.attempt():
                place = mounted.folder / str(number)
                mounted.set(locks=locks)
                first = start(line("train", place, "1e9"), folder)
                wait_for_updates(first, place, run=".")
                second = run([*line("train", place, "1e9"), "--max-walltime", "2"], folder)
                assert second.returncode == 75 and "resumed from" in second.stdout, f"wrong: {second.stderr}"
                stopped = finish(first)
                assert stopped.returncode == 1, f"wrong: exit {stopped.returncode} {stopped.stderr}"
                assert "taken over while in use: nothing more is written" in stopped.stderr.splitlines()[-1]
                found = updates(place)
                assert found == list(range(1, found[-1] + 1)), "wrong: both wrote metrics"
