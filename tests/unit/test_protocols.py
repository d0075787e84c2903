"""Classes have the methods of their protocols, with the same parameters."""

import inspect

import pytest

from pg_mpi.env.atari import AtariGame
from pg_mpi.env.atari_spec import AtariSpec
from pg_mpi.env.gym_env import GymEnv, VectorEncoder
from pg_mpi.env.gym_spec import GymSpec
from pg_mpi.env.interface import Environment, EnvSpec
from pg_mpi.features.difference import DifferenceEncoder
from pg_mpi.features.encoder import BlobEncoder, Encoder
from pg_mpi.features.native_encoder import NativeEncoder
from pg_mpi.features.pong import Courses
from pg_mpi.features.registry import CheckedEncoder
from pg_mpi.learning.gradient_source import GradientSource
from pg_mpi.learning.optimizer_steps import DividedStep, OptimizerStep, WholeStep
from pg_mpi.learning.rollout_gradients import Clipped, Reinforce
from pg_mpi.learning.self_imitation.source import SelfImitation
from pg_mpi.mpi.interface import Collectives, Divisible
from pg_mpi.mpi.world import World
from pg_mpi.policy import interface
from pg_mpi.policy.custom_policy import CustomPolicy
from pg_mpi.policy.network import SparseNetwork
from pg_mpi.policy.sparse_mlp import SparseMLP
from scaling.measure.one_rank_of_many import Alone
from scaling.model.virtual.world import VirtualWorld

IMPLEMENTATIONS = {
    Collectives: [World, VirtualWorld],
    Divisible: [World, Alone],
    OptimizerStep: [WholeStep, DividedStep],
    EnvSpec: [AtariSpec, GymSpec],
    Environment: [AtariGame, GymEnv],
    Encoder: [BlobEncoder, NativeEncoder, DifferenceEncoder, CheckedEncoder, Courses, VectorEncoder],
    GradientSource: [Clipped, Reinforce, SelfImitation],
    interface.Network: [SparseNetwork, CustomPolicy],
    interface.Policy: [SparseMLP, CustomPolicy],
}
SET_BY_INSTANCES = {"clock", "cpu_clock"}  # set in the constructor, or a function on the class


@pytest.mark.parametrize(("protocol", "implementation"), [(p, f) for p, each in IMPLEMENTATIONS.items() for f in each])
def test_class_implements_its_protocol(protocol, implementation):
    methods = {name: f for name, f in vars(protocol).items() if inspect.isfunction(f) and name[0] != "_"}
    assert methods
    for name, method in methods.items():
        if name in SET_BY_INSTANCES:
            continue
        found = inspect.signature(getattr(implementation, name)).parameters
        expected = [parameter for parameter in inspect.signature(method).parameters if parameter != "self"]
        given = [parameter for parameter in found if parameter != "self"]
        assert given[: len(expected)] == expected, (
            f"{implementation.__name__}.{name}{tuple(given)}, not {tuple(expected)}"
        )
        extra = list(found.values())[len(found) - (len(given) - len(expected)) :]
        assert all(each.default is not each.empty for each in extra)
