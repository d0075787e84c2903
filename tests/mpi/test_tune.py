"""Many trainings at once under real MPI: trials that go well, that fail, that are killed, and that are resumed."""

import json
import signal
import sys
import time

import pytest
from jobs import ROOT, STEPS, command, end, finish, one_line, run, start

from scaling.csv_io import read_csv

pytestmark = pytest.mark.mpi
#: Short games, so that trials have scores after seconds; updates of a fraction of a second.
SHORT = ["--envs-per-rank", 2, "--max-frames", 200, "--update-epochs", 1, "--checkpoint-every", 4]
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


def tune(tmp_path, ranks, *words, space=SPACE, module="pg_mpi.tune", quick=QUICK, **environment):
    (tmp_path / "space.toml").write_text(space)
    line = command(ranks, module, "--space", "space.toml", "--json", *words, *quick)
    return run(line, tmp_path, limit=150, **environment)


def told(result):
    return json.loads(result.stdout.splitlines()[-1])["trials"]


WITHOUT_STEPS = ["--sync", "steps", "--minibatch-size", 64, *SHORT, "--max-frames", 400]


# Where ranks share two cores with other tests, 12 s may be over before the first game is.
@pytest.mark.parametrize("ranks, each, trials, budget", [(4, 2, 4, 20), (8, 2, 6, 24)])
def test_a_study(tmp_path, ranks, each, trials, budget):
    words = ["--ranks-per-trial", each, "--trials", trials, "--budget", budget]
    result = tune(tmp_path, ranks, *words, quick=WITHOUT_STEPS)
    assert result.returncode == 0, result.stderr
    rows = told(result)
    assert [row["slot"] for row in rows] == list(range(trials))
    assert {row["state"] for row in rows} <= {"complete", "pruned"} and "complete" in {row["state"] for row in rows}
    assert all(1e-4 <= row["params"]["learning_rate"] <= 1e-3 for row in rows)
    assert all(row["params"]["num_steps"] in (32, 64, 96, 128) for row in rows)
    assert len({row["params"]["learning_rate"] for row in rows}) == trials, "groups began with the same settings"
    folder = tmp_path / "tune.trials"
    for row in rows:
        lines = (folder / f"{row['slot']:04d}/metrics.jsonl").read_text().splitlines()
        *before, last = (json.loads(line) for line in lines)
        assert last["ranks"] == each
        assert all(line["wall_s"] < budget for line in before), "a trial went on after its budget was spent"
        assert last["wall_s"] > budget - 1 or row["state"] == "pruned", "a trial ended before its budget was spent"
    best = max((row for row in rows if row["state"] == "complete"), key=lambda row: row["score"])
    preset = json.loads((folder / "best.json").read_text())
    assert preset["learning_rate"] == best["params"]["learning_rate"] and preset["max_frames"] == 400
    assert "seed" not in preset and "env_id" not in preset
    assert (folder / "study.png").stat().st_size > 10_000 and (folder / "DONE").exists()
    table, _ = read_csv(folder / "trials.csv", "tune", 1, numbers=("trial", "learning_rate"))
    assert [row["state"] for row in table] == [row["state"] for row in rows]
    assert sum(line.strip().startswith(tuple("012345")) for line in result.stdout.splitlines()) >= trials
    with_it = ["--preset", "tune.trials/best.json", "--run-dir", "with-it", "--total-timesteps", 500]
    trained = run(command(2, "pg_mpi.train", *with_it), tmp_path)
    assert trained.returncode == 0, trained.stderr
    settings = json.loads((tmp_path / "with-it/config.json").read_text())["settings"]
    assert {name: settings[name] for name in preset} == preset
    again = tune(tmp_path, ranks, *words, quick=WITHOUT_STEPS)
    assert told(again) == rows and again.returncode == 0, "a study that is over was played on"


def test_trials_that_fail_are_recorded_and_the_rest_go_on(tmp_path):
    space = "[hidden]\nchoices = [8, 9, 10, 12, 13]\n\n[gamma]\nchoices = [0.9, 0.95, 0.99]\n"
    words = [
        "--ranks-per-trial",
        2,
        "--trials",
        9,
        "--budget",
        12,
        "--seed",
        4,
    ]  # whose first proposals have all of them
    result = tune(tmp_path, 4, *words, space=space, module="faulty_tune", **here())
    assert result.returncode == 0, result.stderr
    rows = told(result)
    assert {row["params"]["hidden"] for row in rows} == {8, 9, 10, 12, 13}
    said = {8: "ArithmeticError: planted in an update", 9: "ArithmeticError: planted at the start", 10: "gradient"}
    for row in rows:
        hidden = row["params"]["hidden"]
        if hidden in said:
            assert row["state"] == "failed" and said[hidden] in row["why"], row
        else:
            assert row["state"] in ("complete", "pruned"), row
    assert {row["state"] for row in rows} >= {"failed", "complete"}


def test_a_killed_process_ends_the_job_and_the_study_goes_on_where_it_was(tmp_path):
    space = "[hidden]\nchoices = [11]\n\n[gamma]\nlow = 0.9\nhigh = 0.99\n"
    words = ["--ranks-per-trial", 2, "--trials", 3, "--budget", 20]
    keep = {**here(), "PLANTED": str(tmp_path / "planted")}
    killed = tune(tmp_path, 4, *words, space=space, module="faulty_tune", **keep)
    assert killed.returncode not in (0, 75) and (tmp_path / "planted").exists()
    result = tune(tmp_path, 4, *words, space=space, module="faulty_tune", **keep)
    assert result.returncode == 0, result.stderr
    rows = told(result)
    assert [row["slot"] for row in rows] == [0, 1, 2] and "running" not in {row["state"] for row in rows}
    starts = [
        len(json.loads(path.read_text())["starts"]) for path in sorted(tmp_path.glob("tune.trials/*/config.json"))
    ]
    assert starts[:2] == [2, 2], "the trials that were under way began anew, or were left out"


def test_a_signal_stops_it_with_checkpoints_and_two_jobs_share_a_study(tmp_path):
    (tmp_path / "space.toml").write_text("[gamma]\nlow = 0.9\nhigh = 0.99\n")
    words = ["--space", "space.toml", "--trials", 7, "--budget", 15, "--json", *QUICK]
    one, other = (start(command(2, "pg_mpi.tune", *words), tmp_path) for _ in range(2))
    deadline = time.monotonic() + 90
    while len(list(tmp_path.glob("tune.trials/*/checkpoints/*.npz"))) < 1:
        assert time.monotonic() < deadline and one.poll() is None and other.poll() is None
        time.sleep(0.2)
    one.send_signal(signal.SIGUSR1)
    stopped, whole = finish(one, 60), finish(other, 120)
    assert stopped.returncode == 75 and "stopped: run the same command again to resume" in stopped.stdout
    assert whole.returncode == 0, whole.stderr
    last = run(command(2, "pg_mpi.tune", *words), tmp_path, limit=120)
    assert last.returncode == 0, last.stderr
    rows = told(last)
    assert [row["slot"] for row in rows] == list(range(7))
    assert {row["state"] for row in rows} <= {"complete", "pruned"}
    end(one), end(other)


def here():
    """The environment in which the module with the faults is found."""
    return {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests/mpi'}"}


@pytest.mark.parametrize(
    "space, words, said",
    [
        (SPACE, ["--ranks-per-trial", 3], "2 ranks make no groups of 3"),
        (SPACE, ["--learning-rate", "1e-3"], "learning_rate is in space.toml and on the command line"),
        (SPACE, ["--target-return", "3"], "--target-return does not apply here"),
        (SPACE, ["--budget", "0"], "--budget must be a duration above zero"),
        (SPACE, ["--trails", "3"], "--trails"),
        ("[learning_rat]\nchoices = [1]\n", [], "no setting of pg_mpi.train (did you mean learning_rate?)"),
        ("[hidden]\nlow = 64\nhigh = 8\n", [], "low must be below high"),
        ("[hidden]\nlow = 8\nhigh = 32\nstep = 0.5\n", [], "step must be a whole number"),
        (SPACE, ["--env-id", "ALE/Pongg-v5"], "did you mean ALE/Pong-v5?"),
        (SPACE, ["--preset", "preset.json"], "--total-timesteps does not apply here"),
        ("[hidden]\nlow = 8\n", [], "must have choices, or low and high"),
        ("[hidden]\nlow = -3\nhigh = 8\n", [], "must be a whole number of at least 1, not -3"),
        ("[sync]\nchoices = ['steps', 'step']\n", [], "must be one of episode, steps"),
        ("[run_dir]\nchoices = ['x']\n", [], "no setting of pg_mpi.train"),
        ("hidden = ", [], "is not a TOML file of settings"),
        ("", [], "is empty"),
    ],
)
def test_bad_input_is_one_line(tmp_path, space, words, said):
    (tmp_path / "preset.json").write_text('{"total_timesteps": 1000}')
    refused = tune(tmp_path, 2, *words, space=space, quick=[])
    assert refused.returncode == 2 and said in one_line(refused) and not list(tmp_path.glob("tune*"))


def test_a_study_stays_with_its_settings(tmp_path):
    """Another space, budget or flag would be mixed with what is there. Whole numbers may be written as 1e6."""
    (tmp_path / "studies").mkdir()
    words = ["--study", "studies/mine.journal", "--trials", 1]
    space = "[anneal_timesteps]\nlow = 1e6\nhigh = 4e6\n"
    begun = tune(tmp_path, 2, *words, "--budget", 3, "--max-walltime", 0.1, space=space)
    assert begun.returncode == 75, begun.stderr
    for other, changed in ((["--budget", 4], "budget"), (["--budget", 3, "--gamma", 0.9], "gamma")):
        refused = tune(tmp_path, 2, *words, *other, space=space)
        assert refused.returncode == 2 and f"begun with other settings ({changed})" in one_line(refused)
    refused = tune(tmp_path, 2, *words, "--budget", 3, space=space + "[gamma]\nchoices = [0.9]\n")
    assert refused.returncode == 2 and "begun with other settings (space)" in one_line(refused)
    ended = tune(tmp_path, 2, *words, "--budget", 3, space=space)
    (row,) = told(ended)
    assert row["state"] in ("complete", "failed") and isinstance(row["params"]["anneal_timesteps"], int)


def test_a_space_that_is_not_there(tmp_path):
    refused = run([sys.executable, "-m", "pg_mpi.tune", "--space", "nowhere.toml"], tmp_path)
    assert refused.returncode == 2 and "the space nowhere.toml" in one_line(refused)
