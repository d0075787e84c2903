"""The example policy in torch: gradients, resume and continuous actions. ``make test-torch``."""

import numpy as np
import pytest
from derivatives import numeric
from jobs import metrics, train, train_and_resume

pytestmark = pytest.mark.torch
ENV = ["--env-id", "examples.corridor:Corridor", "--policy", "examples.torch_policy:Net"]


@pytest.mark.parametrize("free", [0, 2])
def test_gradient_is_the_finite_difference(free):
    import torch
    from torch.nn.utils import vector_to_parameters

    from examples.torch_policy import Net

    rng = np.random.default_rng(0)
    net = Net(3, 4, free, rng, 5)
    net.theta[...] += 0.3 * rng.standard_normal(net.theta.size)
    x, d_outputs = rng.normal(size=(6, 3)).astype(np.float32), rng.normal(size=(6, 5)).astype(np.float32)
    net.forward(x)
    gradient = net.backward(d_outputs).copy()
    net.module.double()  # its parameters are no longer views of ``theta``

    def loss(theta):
        vector_to_parameters(torch.from_numpy(theta), net.module.parameters())
        return float((net.module(torch.from_numpy(x.astype(np.float64))).detach().numpy() * d_outputs).sum())

    assert gradient == pytest.approx(numeric(loss, net.theta.astype(np.float64)), abs=2e-4)


def test_parameters_are_one_array():
    from examples.torch_policy import Net

    net = Net(3, 2, 0, np.random.default_rng(1), 4)
    before = net.forward(np.ones((1, 3), np.float32)).copy()
    net.theta[...] *= 2
    assert not np.array_equal(net.forward(np.ones((1, 3), np.float32)), before), "the module ignores changes of theta"
    assert sum(each.numel() for each in net.module.parameters()) == net.theta.size


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_learns_and_resumes_bit_exact(tmp_path, ranks):
    flags = [*ENV, "--num-steps", 64, "--minibatch-size", 64, "--update-epochs", 4, "--hidden", 16]
    whole, _ = train_and_resume(tmp_path, ranks, *flags, budgets=(7_000 * ranks, 15_000 * ranks))
    assert metrics(whole)[-1]["return_mean"] > 0.9


def test_continuous_actions(tmp_path):
    flags = ["--env-id", "Pendulum-v1", "--policy", "examples.torch_policy:Net"]
    train(2, tmp_path, *flags, "--total-timesteps", 3000)
    assert metrics(tmp_path)[-1]["approx_kl"] > 0
