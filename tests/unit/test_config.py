"""The command line: settings, presets, and a one-line message for each invalid argument."""

import dataclasses
import json
import os
import subprocess
import sys

import pytest
from jobs import run, without

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import Parser, duration, integer, spans, updates_or_time
from pg_mpi.config.settings import FIELDS, TrainConfig
from pg_mpi.files.run_folder import RunFolder


def test_defaults_presets_and_flags():
    config, given = parse_train(["--preset", "karpathy", "--hidden", "100", "--hidden", "50"])
    assert (config.hidden, config.gamma, config.method, config.learning_rate) == (50, 0.99, "reinforce", 1e-3)
    assert given == {"preset", "hidden"}
    assert parse_train(["--preset", "fast"])[0] == TrainConfig(preset="fast", sync="steps", envs_per_rank=8)
    assert parse_train([])[0] == TrainConfig()
    assert parse_train([])[0].folder == "runs/pong-default-s0"
    assert parse_train(["--env-id", "ALE/Breakout-v5"])[0].folder == "runs/breakout-default-s0"


def test_numbers_and_durations():
    assert parse_train(["--total-timesteps", "2e9"])[0].total_timesteps == 2_000_000_000
    assert integer()("12345678901234567890") == 12345678901234567890
    assert [duration(t) for t in ("00:10:00", "1-00:00:01", "02:30", "90")] == [600, 86401, 150, 90]


@pytest.mark.parametrize(
    "args, line",
    [
        (["--hiden", "3"], "unknown argument --hiden (did you mean --hidden?)"),
        (["--preset", "karpaty"], "no preset or file 'karpaty' (did you mean karpathy?)"),
        (["--sync", "stepz"], "--sync must be one of episode, steps (did you mean steps?)"),
        (["--hidden", "0"], "--hidden must be a whole number of at least 1, not '0'"),
        (["--hidden", "1.5"], "--hidden must be a whole number"),
        (["--max-frames", "1e10"], "--max-frames must be a whole number of at least 1 and at most 2,147,483,647"),
        (["--total-timesteps", "-5"], "--total-timesteps must be a whole number of at least 1"),
        (["--learning-rate", "nan"], "--learning-rate must be a finite number above 0, not 'nan'"),
        (["--learning-rate", "inf"], "--learning-rate must be a finite number"),
        (["--gamma", "1.1"], "--gamma must be a finite number above 0 and at most 1"),
        (["--target-return", "nan"], "--target-return must be a finite number, not 'nan'"),
        (["--max-walltime", "0"], "--max-walltime must be a duration above zero"),
        (["--max-walltime", "soon"], "--max-walltime must be a duration"),
        (["--max-walltime", "1-12:00"], "--max-walltime must be a duration above zero such as 00:10:00"),
        (["--tiles", "on"], "unknown argument --tiles (did you mean --actions?): see --help"),
        (["--hidden"], "argument --hidden: expected one argument"),
        (["extra"], "unknown argument extra"),
    ],
)
def test_invalid_arguments_are_refused_with_one_line(args, line):
    with pytest.raises(UsageError) as refused:
        parse_train(args)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def parser():
    p = Parser()
    p.add_argument("seeds", metavar="SEEDS", type=spans)
    p.add_argument("-r", "--ranks", metavar="N", type=integer())
    p.add_argument("--limit", type=duration, default="00:05:00")
    return p


def test_typed_arguments_and_text_defaults_are_parsed():
    assert vars(parser().parse(["0-2"])) == {"seeds": [0, 1, 2], "ranks": None, "limit": 300}
    assert vars(parser().parse(["7", "-r", "2e3", "--limit", "90"])) == {"seeds": [7], "ranks": 2000, "limit": 90}


@pytest.mark.parametrize(
    "args, line",
    [
        (["0", "-r", "x"], "--ranks must be a whole number of at least 1, not 'x'"),
        *(
            ([text], f"SEEDS must be whole numbers or ranges such as 0-4,17, each number once, not '{text}'")
            for text in ("2-0", "a", "1-", "0-4,,7", "3,3")
        ),
        (["0", "--lim", "90"], "unknown argument --lim (did you mean --limit?): see --help"),
    ],
)
def test_errors_name_the_typed_argument(args, line):
    with pytest.raises(UsageError) as caught:
        parser().parse(args)
    assert str(caught.value) == line


def test_settings_that_may_change_on_resume():
    free = {name for name, field in FIELDS.items() if not field.metadata["identity"]}
    budgets = {"total_timesteps", "max_walltime", "target_return", "expect_ranks", "min_ranks", "watchdog"}
    output = {"checkpoint_every", "keep_checkpoints", "evaluate_every", "log_interval", "track", "trace"}
    assert free == budgets | output | {"preset", "run_dir", "resume", "sync_check_every", "elastic"}


def test_config_json_of_a_run_is_a_preset(tmp_path):
    words = ["--hidden", "32", "--env-id", "ALE/Breakout-v5", "--max-walltime", "99", "--run-dir", str(tmp_path)]
    before, _ = parse_train(words)
    folder = RunFolder(str(tmp_path))
    folder.begin(dataclasses.asdict(before), {})
    config, _ = parse_train(["--preset", folder.file("config.json")])
    assert config.identity() == before.identity() and (config.hidden, config.max_walltime) == (32, None)
    assert config.folder != before.folder


def test_preset_file(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"hidden": 64, "learning-rate": 1e-3, "sync": "steps"}))
    config, _ = parse_train(["--preset", str(path), "--hidden", "32"])
    assert (config.hidden, config.learning_rate, config.sync) == (32, 1e-3, "steps")
    assert config.folder == "runs/pong-mine-s0"
    path.write_text(json.dumps({"hiden": 64}))
    with pytest.raises(UsageError, match="unknown setting 'hiden' \\(did you mean hidden"):
        parse_train(["--preset", str(path)])
    path.write_text(json.dumps({"preset": "fast"}))
    with pytest.raises(UsageError, match="names another preset"):
        parse_train(["--preset", str(path)])
    path.write_text("{")
    with pytest.raises(UsageError, match="not a JSON object"):
        parse_train(["--preset", str(path)])
    path.write_text(json.dumps({"hidden": True}))
    with pytest.raises(UsageError, match="hidden in .* must be a whole number"):
        parse_train(["--preset", str(path)])
    path.write_text(json.dumps({"gamma": 7}))
    with pytest.raises(UsageError, match="gamma in .* must be a finite number"):
        parse_train(["--preset", str(path)])


def test_contradictory_settings_are_refused():
    with pytest.raises(UsageError, match="minibatch-size 4096 exceeds the rollout of 1024 samples"):
        TrainConfig(sync="steps", num_steps=256, minibatch_size=4096).check(4, {"minibatch_size"})
    TrainConfig(sync="steps", num_steps=256, minibatch_size=1024).check(4, {"minibatch_size"})
    with pytest.raises(UsageError, match="whole games"):
        parse_train(["--preset", "karpathy", "--sync", "steps"])[0].check(ranks=1)


def test_explicit_default_minibatch_size_must_fit_the_rollout():
    config, given = parse_train(["--sync", "steps", "--minibatch-size", str(TrainConfig.minibatch_size)])
    assert config == parse_train(["--sync", "steps"])[0]
    with pytest.raises(UsageError, match="minibatch-size 2048 exceeds the rollout of 128 samples"):
        config.check(1, given)
    config.check(1, {"sync"})
    config.check(16, given)


def test_help_needs_neither_numpy_nor_mpi(tmp_path):
    result = run(without(["numpy", "mpi4py"], "pg_mpi.train", "--help"), tmp_path, code=0)
    assert "--minibatch-size" in result.stdout and "mpirun -n" in result.stdout


def test_command_line_module_prints_the_run_folder():
    def run_folder_of(*flags):
        return subprocess.run(
            [sys.executable, "-m", "pg_mpi.config.command_line", *flags], capture_output=True, text=True
        )

    assert run_folder_of("--preset", "fast", "--seed", "3").stdout == "runs/pong-fast-s3\n"
    line = [sys.executable, "-m", "pg_mpi.config.command_line", "--run-dir", b"runs/\xff"]
    strict = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}  # as in most locales
    assert subprocess.run(line, capture_output=True, env=strict).stdout == b"runs/\xff\n"
    refused = run_folder_of("--sed", "3")
    assert refused.returncode == 2 and not refused.stdout
    assert refused.stderr.startswith("pg_mpi: error: unknown argument --sed (did you mean --seed?)")


@pytest.mark.parametrize("name, value", [("features", "evil:Class"), ("policy", "evil:Class"), ("env_id", "evil:make")])
def test_code_named_by_a_preset_file_needs_the_flag_too(tmp_path, name, value):
    path = tmp_path / "preset.json"
    path.write_text(json.dumps({name: value}))
    flag = f"--{name.replace('_', '-')}"
    with pytest.raises(UsageError, match=f"names {value}, which would be imported: give {flag} {value} to trust it"):
        parse_train(["--preset", str(path)])
    assert getattr(parse_train(["--preset", str(path), flag, value])[0], name) == value


@pytest.mark.parametrize(
    "text, value",
    [("50", 50), ("2e3", 2000), ("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), ("00:10:00", 600.0), (600.0, 600.0)],
)
def test_updates_or_time(text, value):
    parsed = updates_or_time(text)
    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize("text", ["0", "-1", "0s", "1.5", "10 m", "m", "1d", "nan", "inf", ""])
def test_neither_updates_nor_time_is_refused(text):
    with pytest.raises(UsageError, match="--checkpoint-every must be a number of updates, or a time such as 10m"):
        parse_train(["--checkpoint-every", text])


def test_own_plug_in_in_a_preset_file_needs_no_flag(tmp_path):
    path = tmp_path / "preset.json"
    path.write_text(json.dumps({"features": "pg_mpi.features.pong:Courses"}))
    assert parse_train(["--preset", str(path)])[0].features == "pg_mpi.features.pong:Courses"


def test_negative_number_may_have_an_exponent():
    assert parse_train(["--target-return", "-2e2"])[0].target_return == -200
