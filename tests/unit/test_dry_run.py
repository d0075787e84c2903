"""``--dry-run``, against the run that it describes."""

import re
import sys
from pathlib import Path

import pytest
from jobs import metrics, newest, one_line, refusal, run

from pg_mpi.config.command_line import parse_train
from pg_mpi.train import dry_run

SMALL = ["--hidden", "16", "--preset", "fast", "--envs-per-rank", "2"]
SMALL += ["--max-minibatches", "3", "--minibatch-size", "32"]


def train(cwd, *flags, code=0):
    """Run the trainer in one process. Asserts the exit code and returns the completed process."""
    return run([sys.executable, "-m", "pg_mpi.train", *SMALL, *flags], cwd, code=code)


def numbers(pattern, text):
    """The numbers in the only match of a pattern."""
    (match,) = re.findall(pattern, text)
    return [float(word.replace(",", "")) for word in (match if isinstance(match, tuple) else [match])]


def test_says_which_checkpoints_are_in_parts(capsys):
    for ranks, form in (("512", "one file, or parts if"), ("513", "in parts, each of at most 512 ranks of one host")):
        dry_run([*SMALL, "--env-id", "CartPole-v1", "--dry-run", "--ranks", ranks])
        assert form in capsys.readouterr().out


def test_says_what_a_run_does_and_saves(tmp_path):
    said = train(tmp_path, "--dry-run").stdout
    assert not list(tmp_path.iterdir())
    done = train(tmp_path, "--run-dir", "run", "--total-timesteps", "512")
    banner = next(line for line in said.splitlines() if line.startswith("an update:"))
    assert banner in done.stdout.splitlines()
    assert banner.endswith("256 samples (envs: 2, steps of each: 128); epochs: 4, minibatches: 3 of 85, exchanges: 12")
    lines = metrics(tmp_path)
    assert [line["exchanges"] for line in lines] == [12, 24]
    (most,) = numbers(r"an exchange: at most ([\d.]+) MB", said)
    assert 0 < lines[0]["bytes_exchanged"] / 12 <= 1.05e6 * most
    (size,) = numbers(r"a checkpoint: ([\d.]+) MB", said)
    assert Path(newest(tmp_path)[0]).stat().st_size == pytest.approx(1e6 * size, rel=0.05)
    (memory,) = numbers(r"memory: about ([\d,]+) MB", said)
    assert memory == pytest.approx(lines[-1]["rss_mb"], abs=30)


def test_knows_any_number_of_ranks(capsys):
    dry_run([*SMALL, "--dry-run", "--ranks", "100000"])
    said = capsys.readouterr().out
    assert "ranks: 100,000, envs: 200,000" in said
    assert "25,600,000 samples (envs: 200,000, steps of each: 128); epochs: 4, minibatches: 3 of 8,533,333," in said
    assert numbers(r"over ([\d,]+) steps", said) == [
        round(4e6 * 25_600_000 / (3 * 32) / 4)
    ]  # the learning rate is twice, its square 4 times as large
    whole, weights, each = numbers(
        r"a checkpoint: ([\d,.]+) MB: ([\d.]+) MB of weights.*, ([\d.]+) kB for each env", said
    )
    assert whole == pytest.approx(weights + 200 * each, rel=0.01)


@pytest.mark.parametrize(
    "main, flags, line",
    [
        (parse_train, ["--ranks", "4"], "--ranks is for --dry-run: start the ranks with mpirun -n 4"),
        (dry_run, ["--min-ranks", "2", "--elastic"], "--min-ranks 2 is more than the 1 ranks there are"),
        (dry_run, ["--ranks", "2", "--num-steps", "10", "--minibatch-size", "64"], "exceeds the rollout of 40"),
    ],
)
def test_wrong_usage(main, flags, line):
    assert line in refusal(main, *SMALL, *flags)


def test_command_refuses_wrong_usage_with_one_line(tmp_path):
    result = train(tmp_path, "--dry-run", "--ranks", "none", code=2)
    assert "--ranks must be a whole number of at least 1" in one_line(result)
