"""The gradient noise scale, against gradients whose mean and covariance are known."""

import json

import numpy as np
import pytest

from pg_mpi.config.command_line import parse_train
from pg_mpi.learning.gradient_noise import GradientNoise
from pg_mpi.mpi.world import World
from pg_mpi.run.trainer import Trainer


def test_mean_of_many_estimates_is_the_truth():
    rng = np.random.default_rng(5)
    mean, deviations = np.array([3.0, -1.0, 0.5]), np.array([1.0, 2.0, 4.0])
    found = []
    for _ in range(20_000):
        noise = GradientNoise()
        noise.expect(4)
        for samples in (8, 20, 20, 8):
            noise.see(mean + deviations * rng.standard_normal(3) / np.sqrt(samples), samples, np.dot)
        found.append(list(noise.metrics().values()))
    assert np.mean(found, axis=0) == pytest.approx([mean @ mean, deviations @ deviations], rel=0.02)


def test_one_minibatch_an_epoch_says_nothing():
    noise = GradientNoise()
    noise.expect(1)
    for _ in range(4):
        noise.see(np.ones(3), 10, np.dot)
    assert noise.metrics() == {"grad_signal": None, "grad_variance": None}


@pytest.mark.parametrize("size, known", [("64", True), ("256", False)])
def test_metrics_of_a_run(tmp_path, size, known):
    """256 samples an update. The gradients of the first two minibatches, before they are clipped, are compared."""
    flags = ["--env-id", "CartPole-v1", "--envs-per-rank", "2", "--num-steps", "128", "--hidden", "4"]
    trainer = Trainer(World(), *parse_train([*flags, "--minibatch-size", size, "--run-dir", str(tmp_path / "run")]))
    gradients, learner = [], trainer._learner
    take = learner._store.step

    def step(buffers, limit):
        gradients.append(buffers.buffer[:-1] / buffers.buffer[-1])
        return take(buffers, limit)

    learner._store.step = step
    trainer.learn(trainer.play())
    trainer.report()
    line = json.loads((tmp_path / "run" / "metrics.jsonl").read_text())
    if not known:
        assert line["grad_signal"] is line["grad_variance"] is None
        return
    one, two = gradients[:2]
    assert line["grad_signal"] == pytest.approx(one @ two, rel=1e-4)
    assert line["grad_variance"] == pytest.approx(np.sum((one - two) ** 2) * 32, rel=1e-4)
