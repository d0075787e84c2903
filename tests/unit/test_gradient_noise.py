"""The gradient noise scale, against gradients whose mean and covariance are known."""

import json

import numpy as np
import pytest

from pg_mpi.config.command_line import parse_train
from pg_mpi.learning.gradient_noise import GradientNoise
from pg_mpi.mpi.world import World
from pg_mpi.run.trainer import Trainer

NOTHING = {"grad_signal": None, "grad_variance": None}


def test_mean_of_many_estimates_is_the_truth():
    rng = np.random.default_rng(5)
    mean, deviations = np.array([3.0, -1.0, 0.5]), np.array([1.0, 2.0, 4.0])
    found = []
    for _ in range(20_000):
        noise, whole = GradientNoise(), np.zeros(3)
        for samples in (8, 0, 20):
            gradient = samples * mean + np.sqrt(samples) * deviations * rng.standard_normal(3)
            noise.add_group(gradient, samples)
            whole += gradient
        noise.add_whole(np.linalg.norm(whole / 28), 28)
        noise.add_group(100 * mean, 100)  # the next minibatch does not count
        noise.add_whole(100.0, 200)
        found.append(list(noise.metrics(World()).values()))
    assert np.mean(found, axis=0) == pytest.approx([mean @ mean, deviations @ deviations], rel=0.02)


def test_one_group_says_nothing():
    noise = GradientNoise()
    assert noise.metrics(World()) == NOTHING
    noise.add_group(np.ones(3), 10)
    noise.add_whole(1.0, 10)
    assert noise.metrics(World()) == NOTHING


@pytest.mark.parametrize("flags, groups", [(["--reproducible"], 3), ([], 1)])
def test_metrics_of_a_run(tmp_path, flags, groups):
    """Three envs, which are groups with ``--reproducible``. The gradients of the first minibatch count."""
    flags = [*flags, "--env-id", "CartPole-v1", "--envs-per-rank", "3", "--num-steps", "64", "--hidden", "4"]
    trainer = Trainer(World(), *parse_train([*flags, "--minibatch-size", "96", "--run-dir", str(tmp_path / "run")]))
    parts, (source,) = [], trainer.learner.sources
    add = source._add_gradient

    def add_gradient(batch, chosen, buffers):
        samples = add(batch, chosen, buffers)
        parts.append((buffers.out.astype(np.float64), samples))
        return samples

    source._add_gradient = add_gradient
    trainer.learn(trainer.play())
    trainer.report()
    line = json.loads((tmp_path / "run" / "metrics.jsonl").read_text())
    if groups == 1:
        assert {name: line[name] for name in NOTHING} == NOTHING
        return
    sums, counts = zip(*parts[:groups])
    n, whole = sum(counts), sum(sums)
    squares, pairs = sum(s @ s for s in sums), sum(count**2 for count in counts)
    signal = (whole @ whole - squares) / (n**2 - pairs)
    assert line["grad_signal"] == pytest.approx(signal, rel=1e-3)
    assert line["grad_variance"] == pytest.approx((squares - pairs * signal) / n, rel=1e-3)
