"""Studies of concurrent trials under MPI: trials that complete, fail, are killed and are resumed."""

import errno
import io
import json
import os
import signal
import sys
import time

import pytest
from jobs import (
    STEPS,
    command,
    end,
    finish,
    one_line,
    printed,
    ranks_of,
    read_csv,
    refusal,
    run,
    start,
    wait_for_updates,
)

from pg_mpi.tune.__main__ import _plan
from pg_mpi.tune.board import Board
from pg_mpi.tune.study import Study

#: Short games, so that trials have scores after a second.
SHORT = ["--env-id", "CartPole-v1", "--envs-per-rank", 2, "--update-epochs", 1, "--checkpoint-every", 4]
QUICK = [*STEPS, *SHORT]
SPACE = """
[learning_rate]
low = 1e-4
high = 1e-3
log = true

[num-steps]
low = 32
high = 128
step = 32
"""


def tune(tmp_path, ranks, *args, space=SPACE, module="pg_mpi.tune", quick=QUICK, **options):
    (tmp_path / "space.toml").write_text(space)
    line = command(ranks, module, "--space", "space.toml", "--json", *args, *quick)
    return run(line, tmp_path, limit=150, **options)


def trials_of(result):
    return printed(result)["trials"]


WITHOUT_STEPS = ["--minibatch-size", 64, *SHORT]


def test_study_completes_and_writes_its_results(tmp_path):
    ranks, each, trials, budget = 4, 2, 4, 2
    args = ["--ranks-per-trial", each, "--trials", trials, "--budget", budget]
    result = tune(tmp_path, ranks, *args, quick=WITHOUT_STEPS, code=0)
    rows = trials_of(result)
    assert [row["slot"] for row in rows] == list(range(trials))
    assert {row["state"] for row in rows} <= {"complete", "pruned"} and "complete" in {row["state"] for row in rows}
    assert all(1e-4 <= row["params"]["learning_rate"] <= 1e-3 for row in rows)
    assert all(row["params"]["num_steps"] in (32, 64, 96, 128) for row in rows)
    assert len({row["params"]["learning_rate"] for row in rows}) == trials, "two groups start with the same settings"
    folder = tmp_path / "tune.trials"
    for row in rows:
        lines = (folder / f"{row['slot']:04d}/metrics.jsonl").read_text().splitlines()
        *before, last = (json.loads(line) for line in lines)
        assert last["ranks"] == each
        assert all(line["wall_s"] < budget for line in before), "a trial exceeds its budget"
        assert last["wall_s"] > budget - 1 or row["state"] == "pruned", "a trial ends before its budget"
        assert (folder / f"{row['slot']:04d}/DONE").exists()
    best = max((row for row in rows if row["state"] == "complete"), key=lambda row: row["score"])
    preset = json.loads((folder / "best.json").read_text())
    assert preset["learning_rate"] == best["params"]["learning_rate"] and preset["update_epochs"] == 1
    assert preset["env_id"] == "CartPole-v1" and "seed" not in preset
    assert (folder / "study.png").stat().st_size > 10_000 and (folder / "DONE").exists()
    table, _ = read_csv(folder / "trials.csv", "tune", 1)
    assert [row["state"] for row in table] == [row["state"] for row in rows]
    reported = {line.split()[0] for line in result.stdout.splitlines() if line.startswith("    ")}
    assert reported >= set(map(str, range(trials)))
    flags = ["--preset", "tune.trials/best.json", "--run-dir", "best", "--total-timesteps", 500]
    run(command(2, "pg_mpi.train", *flags), tmp_path, code=0)
    settings = json.loads((tmp_path / "best/config.json").read_text())["settings"]
    assert {name: settings[name] for name in preset} == preset
    again = tune(tmp_path, ranks, *args, quick=WITHOUT_STEPS, code=0)
    assert trials_of(again) == rows, "a finished study continues"


def test_failed_trials_are_recorded_and_others_continue(tmp_path):
    space = "[hidden]\nchoices = [8, 9, 10, 12, 13]\n\n[gamma]\nchoices = [0.9, 0.95, 0.99]\n"
    # The first proposals of seed 4 include all values of hidden.
    args = ["--ranks-per-trial", 2, "--trials", 9, "--budget", 2.5, "--seed", 4]
    result = tune(tmp_path, 4, *args, space=space, module="faulty_tune", code=0)
    rows = trials_of(result)
    assert {row["params"]["hidden"] for row in rows} == {8, 9, 10, 12, 13}
    errors = {8: "ArithmeticError: injected in an update", 9: "ArithmeticError: injected at the start", 10: "gradient"}
    for row in rows:
        hidden = row["params"]["hidden"]
        if hidden in errors:
            assert row["state"] == "failed" and errors[hidden] in row["why"], row
        else:
            assert row["state"] in ("complete", "pruned"), row
    assert {row["state"] for row in rows} >= {"failed", "complete"}


def test_error_of_one_group_ends_the_study(tmp_path):
    """The other group is in a trial, and does not know of it."""
    space = "[hidden]\nchoices = [12, 14]\n\n[gamma]\nlow = 0.9\nhigh = 0.99\n"
    args = ["--ranks-per-trial", 2, "--trials", 9, "--budget", 120, "--seed", 2]
    full = tune(tmp_path, 4, *args, space=space, module="faulty_tune", code=75)
    assert "tune.journal: No space left on device" in full.stderr
    settings = [json.loads(path.read_text())["settings"] for path in tmp_path.glob("tune.trials/*/config.json")]
    assert sorted(each["hidden"] for each in settings) == [12, 14]
    assert not list(tmp_path.glob("tune.trials/*/DONE")), "the other group has ended its trial before"


def test_killed_study_resumes_its_trials(tmp_path):
    space = "[hidden]\nchoices = [11]\n\n[gamma]\nlow = 0.9\nhigh = 0.99\n"
    args = ["--ranks-per-trial", 2, "--trials", 3, "--budget", 4]
    killed = tune(tmp_path, 4, *args, space=space, module="faulty_tune", FAULT_MARKER=str(tmp_path / "marker"))
    assert killed.returncode not in (0, 75) and (tmp_path / "marker").exists()
    result = tune(tmp_path, 4, *args, space=space, module="faulty_tune", code=0)
    rows = trials_of(result)
    assert [row["slot"] for row in rows] == [0, 1, 2] and "running" not in {row["state"] for row in rows}
    starts = [
        len(json.loads(path.read_text())["starts"]) for path in sorted(tmp_path.glob("tune.trials/*/config.json"))
    ]
    assert starts[:2] == [2, 2], f"running trials were not resumed: {rows}"


def test_two_jobs_share_a_study_and_one_stops_at_a_signal(tmp_path):
    (tmp_path / "space.toml").write_text("[gamma]\nlow = 0.9\nhigh = 0.99\n")
    args = ["--space", "space.toml", "--trials", 4, "--budget", 3, "--json", *QUICK]
    stopping = start(command(2, "pg_mpi.tune", *args), tmp_path)
    wait_for_updates(stopping, tmp_path, run="tune.trials/*")  # before that a signal ends it without a word
    continuing = start(command(2, "pg_mpi.tune", *args), tmp_path)
    deadline = time.monotonic() + 90
    while len(list(tmp_path.glob("tune.trials/*/config.json"))) < 2:
        assert time.monotonic() < deadline and stopping.poll() is None and continuing.poll() is None
        time.sleep(0.2)
    stopping.send_signal(signal.SIGUSR1)
    stopped, whole = finish(stopping, 60), finish(continuing, 120)
    assert stopped.returncode == 75 and "stopped: run the same command again to resume" in stopped.stdout
    assert whole.returncode == 0, whole.stderr
    last = run(command(2, "pg_mpi.tune", *args), tmp_path, limit=120, code=0)
    rows = trials_of(last)
    assert [row["slot"] for row in rows] == list(range(4))
    assert {row["state"] for row in rows} <= {"complete", "pruned"}
    end(stopping), end(continuing)


def test_stopped_rank_ends_the_study(tmp_path):
    """The rank that waits for it has no trial of its own, and feeds its watchdog no longer than a trial may take."""
    (tmp_path / "space.toml").write_text(SPACE)
    args = ["--space", "space.toml", "--trials", 1, "--budget", 4, "--watchdog", 3, *WITHOUT_STEPS]
    job = start(command(2, "pg_mpi.tune", *args), tmp_path)
    wait_for_updates(job, tmp_path, run="tune.trials/0000")
    os.kill(ranks_of(job)[0], signal.SIGSTOP)
    result = finish(job, limit=40)
    assert result.returncode not in (0, 75)
    assert "saw no update end for 3 s: the job ends" in result.stderr


def test_journal_with_a_torn_last_line_is_continued(tmp_path):
    path = tmp_path / "tune.journal"
    for torn in (b"", b'{"op_code": 4, "wor'):
        with open(path, "ab") as file:
            file.write(torn)
        study = Study(str(path), {"gamma": {"low": 0.9, "high": 0.99}}, 4, 0)
        task = study.next_task()
        study.tell("complete", 1.5)
    assert task.slot == 1 and [row.score for row in study.rows()] == [1.5, 1.5]
    assert path.with_suffix(".journal.damaged").read_bytes().endswith(torn) and torn not in path.read_bytes()
    with open(path, "ab") as file:
        file.write(torn)  # of another job, while this one goes on
    study.next_task()
    study.tell("complete", 2.5)
    again = Study(str(path), {"gamma": {"low": 0.9, "high": 0.99}}, 4, 0)
    assert [row.score for row in again.rows()] == [1.5, 1.5, 2.5] and torn not in path.read_bytes()


class Unread(io.StringIO):
    """A stream whose reader has ended."""

    def write(self, text):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_results_are_written_when_nobody_reads_the_progress(tmp_path, monkeypatch):
    study = Study(str(tmp_path / "tune.journal"), {"gamma": {"low": 0.9, "high": 0.99}}, 1, 0)
    monkeypatch.setattr(sys, "stdout", Unread())
    board = Board(study, 1)
    study.next_task()
    study.tell("complete", 1.5)
    board.close(dict, {})
    assert {"trials.csv", "best.json", "DONE"} <= set(os.listdir(study.folder))


@pytest.mark.parametrize(
    "space, args, message",
    [
        (SPACE, ["--ranks-per-trial", 3], "2 ranks make no groups of 3"),
        (SPACE, ["--learning-rate", "1e-3"], "learning_rate is in space.toml and on the command line"),
        (SPACE, ["--target-return", "3"], "--target-return does not apply here"),
        (SPACE, ["--budget", "0"], "--budget must be a duration above zero"),
        ("[learning_rat]\nchoices = [1]\n", [], "no setting of pg_mpi.train (did you mean learning_rate?)"),
        ("[hidden]\nlow = 64\nhigh = 8\n", [], "low must be below high"),
        ("[hidden]\nlow = 8\nhigh = 32\nstep = 0.5\n", [], "step must be a whole number"),
        ('[hidden]\nlow = 8\nhigh = 32\nstep = ""\n', [], "low, high and step must be numbers"),
        (SPACE, ["--env-id", "ALE/Pongg-v5"], "did you mean ALE/Pong-v5?"),
        (SPACE, ["--preset", "preset.json"], "--total-timesteps does not apply here"),
        ("[hidden]\nlow = 8\n", [], "must have choices, or low and high"),
        ("[ent-coef]\nchoices = [0]\n[ent_coef]\nchoices = [1]\n", [], "has a setting twice"),
        ("[hidden]\nlow = -3\nhigh = 8\n", [], "must be a whole number of at least 1, not -3"),
        ("[sync]\nchoices = ['steps', 'step']\n", [], "must be one of episode, steps"),
        ("[run_dir]\nchoices = ['x']\n", [], "no setting of pg_mpi.train"),
        ("hidden = ", [], "is not a TOML file of settings"),
        ("[gamma]\nchoices = [0.9]\n", ["--study", "."], "--study . is a folder: give a file, as ./tune.journal"),
        ("", [], "is empty"),
    ],
)
def test_bad_input_is_refused_before_writing(tmp_path, monkeypatch, space, args, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "preset.json").write_text('{"total_timesteps": 1000}')
    (tmp_path / "space.toml").write_text(space)
    assert message in refused(2, "--space", "space.toml", *args) and not list(tmp_path.glob("tune*"))


def refused(ranks, *args):
    """Return the message with which a study on ``ranks`` ranks refuses its arguments. In this process, without MPI."""
    return refusal(lambda argv: _plan(argv, ranks), *args)


def test_bad_input_is_refused_with_one_line(tmp_path):
    result = tune(tmp_path, 2, "--trails", "3", quick=[], code=2)
    assert "--trails" in one_line(result) and not list(tmp_path.glob("tune*"))


def test_study_with_other_settings_is_refused(tmp_path, monkeypatch):
    """The space, the budget and the flags of a study are fixed. An integer may be written as 1e6."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "studies").mkdir()
    space = "[anneal_timesteps]\nlow = 1e6\nhigh = 4e6\n"
    (tmp_path / "space.toml").write_text(space)
    args = ["--study", "studies/mine.journal", "--trials", 1]
    flags = ["--space", "space.toml", *args, *QUICK]
    _plan(list(map(str, [*flags, "--budget", 1.5])), 2)
    assert "begun with other settings (budget)" in refused(2, *flags, "--budget", 4)
    assert "begun with other settings (gamma)" in refused(2, *flags, "--budget", 1.5, "--gamma", 0.9)
    assert "begun with other settings (ranks_per_trial)" in refused(2, *flags, "--budget", 1.5, "--ranks-per-trial", 2)
    (tmp_path / "other.toml").write_text(space + "[gamma]\nchoices = [0.9]\n")
    assert "begun with other settings (space)" in refused(2, *flags, "--budget", 1.5, "--space", "other.toml")
    finished = tune(tmp_path, 2, *args, "--budget", 1.5, space=space)
    (row,) = trials_of(finished)
    assert row["state"] in ("complete", "failed") and isinstance(row["params"]["anneal_timesteps"], int)


def test_missing_space_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "the space nowhere.toml" in refused(1, "--space", "nowhere.toml")
