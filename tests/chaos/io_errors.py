"""Faults of the file system: the N-th call on the run folder fails, for each kind of call and each N."""

import json
import random
import shutil
import sys

from faulty_fs import KINDS, Mounted, usable
from jobs import end, finish, newest, one_line, run, start, wait_for_updates
from outcome import fault

ERRORS = {"EIO": 75, "ENOSPC": 75, "ESTALE": 75, "EACCES": 1}  # and the exit code asked for
FLAGS = ["--env-id", "CartPole-v1", "--hidden", "4", "--num-steps", "64", "--checkpoint-every", "1"]
HALF, WHOLE = "512", "1024"


def line(command, run_folder, budget=WHOLE):
    """The command line of a module of ours on a run folder. Python itself reads nothing there."""
    more = {"train": [*FLAGS, "--total-timesteps", budget, "--run-dir"], "evaluate": ["--games", "2"], "report": []}
    return [sys.executable, "-m", f"pg_mpi.{command}", *more[command], str(run_folder)]


#: Each command, and whether the folder holds a run.
COMMANDS = (("train", False), ("train", True), ("evaluate", True), ("report", True))


def updates(run_folder):
    """The updates in a run's metrics."""
    return [json.loads(each)["update"] for each in (run_folder / "metrics.jsonl").read_text().splitlines()]


def check_kept(backing, before):
    """Assert that a run folder has lost nothing: its checkpoint, its metrics, its name."""
    there = {path.name: path.read_bytes() for path in (backing / "run").rglob("*.npz")}
    assert there.get(max(before)) == before[max(before)], "lost: the newest checkpoint is gone or differs"
    assert not list((backing / "run").rglob("*.damaged*")), "lost: a good file is set aside"
    assert updates(backing / "run")[:2] == [1, 2], "lost: metrics are gone"


@fault("file system: the N-th call on the run folder fails (root only)", tries=30, full=4000)
def failing_calls(outcome, folder, tries, seed):
    """Trains, resumes, evaluates and reports on a FUSE file system, then runs the same without the fault."""
    if not usable():
        return
    for name, budget in (("half", HALF), ("whole", WHOLE)):
        assert run(line("train", folder / name / "run", budget), folder).returncode == 0
    with Mounted(folder / "fs") as mounted:
        for case in cases(mounted, folder, tries, seed):
            with outcome.attempt():
                attempt(mounted, folder, *case)


def cases(mounted, folder, tries, seed):
    """``tries`` of all (command, whether the folder holds a run, rule), in random order."""
    found = []
    for command, begun in COMMANDS:
        prepare(mounted, folder, begun)
        mounted.set()
        assert run(line(command, mounted.folder / "run"), folder).returncode == 0
        calls = [call["kind"] for call in mounted.log()]
        found += [
            (command, begun, {"kind": kind, "first": first, "error": error, "ever": ever})
            for kind in KINDS
            for first in range(calls.count(kind))
            for error in ERRORS
            for ever in (False, True)
        ]
    random.Random(seed).shuffle(found)
    print(f"    {len(found):,} calls and errors, {min(tries, len(found)):,} of them tried", file=sys.stderr, flush=True)
    return found[:tries]


def prepare(mounted, folder, begun):
    """Put the half run, or nothing, into the mounted folder."""
    mounted.set()
    shutil.rmtree(mounted.backing)
    mounted.backing.mkdir()
    if begun:
        shutil.copytree(folder / "half" / "run", mounted.backing / "run")


def attempt(mounted, folder, command, begun, rule):
    """Run a command with failing calls, check what is left, and run it again without."""
    prepare(mounted, folder, begun)
    before = {path.name: path.read_bytes() for path in (mounted.backing / "run").rglob("*.npz")}
    mounted.set(**rule)
    result = run(line(command, mounted.folder / "run"), folder)
    case = f"{command} {'resumed' if begun else 'new'} {rule}"
    mounted.set()
    if result.returncode:
        assert result.returncode == ERRORS[rule["error"]], f"wrong: {case}: exit {result.returncode} {result.stderr}"
        one_line(result)
    if begun:
        check_kept(mounted.backing, before)
    again = run(line(command, mounted.folder / "run"), folder)
    assert again.returncode == 0, f"wrong: {case}: then exit {again.returncode} {again.stderr}"
    if command == "train":
        ends = [newest(place, "run")[1] for place in (mounted.folder, folder / "whole")]
        assert ends[0] == ends[1], f"wrong: {case}: other bits in the end"
        assert updates(mounted.backing / "run") == [1, 2, 3, 4], f"lost: {case}: metrics"
        left = [path.name for path in (mounted.backing / "run").rglob("*") if path.suffix in (".tmp", ".damaged")]
        assert not left, f"wrong: {case}: {left} remain"


@fault("file system: two trainers where it has no locks (root only)", tries=2, full=10)
def no_locks(outcome, folder, tries, seed):
    """The second is refused. After a kill -9 only the same job continues."""
    if not usable():
        return
    with Mounted(folder / "fs") as mounted:
        for number in range(tries):
            with outcome.attempt():
                place = mounted.folder / str(number)
                mounted.set(locks=False)
                first = start(line("train", place, "1e9"), folder, SLURM_JOB_ID="17")
                wait_for_updates(first, place, run=".")
                refuse(place, folder)
                end(first)
                finish(first)
                refuse(place, folder)
                again = run([*line("train", place, "1e9"), "--max-walltime", "2"], folder, SLURM_JOB_ID="17")
                assert again.returncode == 75 and "resumed from" in again.stdout, f"wrong: {again.stderr}"
                assert not (place / "owner").exists(), "wrong: the owner's file stays after an orderly end"


def refuse(place, cwd):
    """Assert that another job is refused."""
    refused = run(line("train", place), cwd, SLURM_JOB_ID="18")
    assert refused.returncode == 75, f"wrong: exit {refused.returncode} {refused.stderr}"
    assert "job 17, and its file system has no locks: if that trainer has ended, remove" in one_line(refused)
