"""The command line: every wrong word gets one line that says what to do."""

import json
import subprocess
import sys

import pytest

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import duration, integer
from pg_mpi.config.settings import TrainConfig


def test_defaults_presets_and_flags():
    config, given = parse_train(["--preset", "karpathy", "--hidden", "100", "--hidden", "50"])
    assert (config.hidden, config.gamma, config.method, config.learning_rate) == (50, 0.99, "reinforce", 1e-3)
    assert given == {"preset", "hidden"}
    assert parse_train(["--preset", "fast"])[0] == TrainConfig(preset="fast", sync="steps", envs_per_rank=8)
    assert parse_train([])[0] == TrainConfig()
    assert parse_train([])[0].folder == "runs/pong-default-s0"


def test_numbers():
    assert parse_train(["--total-timesteps", "2e9"])[0].total_timesteps == 2_000_000_000
    assert integer()("12345678901234567890") == 12345678901234567890
    assert [duration(t) for t in ("00:10:00", "1-00:00:01", "02:30", "90")] == [600, 86401, 150, 90]


@pytest.mark.parametrize(
    "words, line",
    [
        (["--hiden", "3"], "unknown argument --hiden (did you mean --hidden?)"),
        (["--preset", "karpaty"], "no preset or file 'karpaty' (did you mean karpathy?)"),
        (["--sync", "stepz"], "--sync must be one of episode, steps (did you mean steps?)"),
        (["--hidden", "0"], "--hidden must be a whole number of at least 1, not '0'"),
        (["--hidden", "1.5"], "--hidden must be a whole number"),
        (["--total-timesteps", "-5"], "--total-timesteps must be a whole number of at least 1"),
        (["--learning-rate", "nan"], "--learning-rate must be a finite number above 0, not 'nan'"),
        (["--learning-rate", "inf"], "--learning-rate must be a finite number"),
        (["--gamma", "1.1"], "--gamma must be a finite number above 0 and at most 1"),
        (["--target-return", "nan"], "--target-return must be a finite number, not 'nan'"),
        (["--max-walltime", "0"], "--max-walltime must be a duration above zero"),
        (["--max-walltime", "soon"], "--max-walltime must be a duration"),
        (["--sync", "step"], "--sync must be one of episode, steps (did you mean steps?)"),
        (["--tiles", "on"], "unknown argument --tiles (did you mean --actions?): see --help"),
        (["--hidden"], "argument --hidden: expected one argument"),
        (["extra"], "unknown argument extra"),
    ],
)
def test_bad_words(words, line):
    with pytest.raises(UsageError) as caught:
        parse_train(words)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_preset_file(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"hidden": 64, "learning-rate": 1e-3, "sync": "steps"}))
    config, _ = parse_train(["--preset", str(path), "--hidden", "32"])
    assert (config.hidden, config.learning_rate, config.sync) == (32, 1e-3, "steps")
    assert config.folder == "runs/pong-mine-s0"
    path.write_text(json.dumps({"hiden": 64}))
    with pytest.raises(UsageError, match="unknown setting 'hiden' \\(did you mean hidden"):
        parse_train(["--preset", str(path)])
    path.write_text("{")
    with pytest.raises(UsageError, match="not a JSON object"):
        parse_train(["--preset", str(path)])
    path.write_text(json.dumps({"gamma": 7}))
    with pytest.raises(UsageError, match="gamma in .* must be a finite number"):
        parse_train(["--preset", str(path)])


def test_settings_that_contradict():
    with pytest.raises(UsageError, match="minibatch-size 4096 exceeds the rollout of 1024 samples"):
        TrainConfig(sync="steps", num_steps=256, minibatch_size=4096).check(4, {"minibatch_size"})
    TrainConfig(sync="steps", num_steps=256, minibatch_size=1024).check(4, {"minibatch_size"})
    with pytest.raises(UsageError, match="whole games"):
        parse_train(["--preset", "karpathy", "--sync", "steps"])[0].check(ranks=1)


def test_a_minibatch_size_that_was_given_must_fit_the_rollout_also_where_it_is_the_default():
    config, given = parse_train(["--sync", "steps", "--minibatch-size", str(TrainConfig.minibatch_size)])
    assert config == parse_train(["--sync", "steps"])[0]
    with pytest.raises(UsageError, match="minibatch-size 512 exceeds the rollout of 128 samples"):
        config.check(1, given)
    config.check(1, {"sync"})
    config.check(8, given)


def test_help_needs_neither_numpy_nor_mpi():
    code = (
        "import sys; sys.modules['numpy'] = sys.modules['mpi4py'] = None; sys.argv[1:] = ['--help'];"
        "import runpy; runpy.run_module('pg_mpi.train', run_name='__main__')"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert result.returncode == 0, result.stderr
    assert "--minibatch-size" in result.stdout and "mpirun -n" in result.stdout


def test_a_job_script_can_ask_for_the_run_folder():
    def ask(*flags):
        return subprocess.run(
            [sys.executable, "-m", "pg_mpi.config.command_line", *flags], capture_output=True, text=True
        )

    assert ask("--preset", "fast", "--seed", "3").stdout == "runs/pong-fast-s3\n"
    wrong = ask("--sed", "3")
    assert wrong.returncode == 2 and not wrong.stdout
    assert wrong.stderr.startswith("pg_mpi: error: unknown argument --sed (did you mean --seed?)")
