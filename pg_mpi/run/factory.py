"""Settings and specification → policy, optimizer and learner."""

from collections.abc import Callable
from typing import Any, cast

from pg_mpi.config.errors import UsageError, user_code
from pg_mpi.config.parsers import imported
from pg_mpi.config.random_streams import WEIGHTS, stream
from pg_mpi.config.settings import TrainConfig
from pg_mpi.env.interface import EnvSpec
from pg_mpi.learning.gradient_source import GradientSource
from pg_mpi.learning.learner import Learner
from pg_mpi.learning.optimizer import Adam, Optimizer, RMSProp
from pg_mpi.learning.parameter_store import ParameterStore
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.rollout_gradients import Clipped, Reinforce
from pg_mpi.learning.self_imitation.source import SelfImitation
from pg_mpi.mpi.interface import Collectives
from pg_mpi.policy.custom_policy import CustomPolicy
from pg_mpi.policy.distributions import Categorical, Gaussian
from pg_mpi.policy.interface import Policy
from pg_mpi.policy.mlp import MLP
from pg_mpi.policy.running_norm import RunningNorm


def make_policy(config: TrainConfig, env_spec: EnvSpec) -> Policy:
    """Make the policy of ``config`` with random weights, equal on all ranks with the same numpy.

    Raises ``UsageError`` for a custom policy that does not import, and whatever its code raises.
    """
    if env_spec.sparse and config.policy == "usual":
        return _sparse(config, env_spec)
    head = Gaussian(len(cast(Any, env_spec).spaces.low)) if env_spec.gaussian else Categorical(len(env_spec.codes))
    free = head.outputs // 2 if env_spec.gaussian else 0
    make = MLP if config.policy == "usual" else own_policy(config)
    inputs = env_spec.make_encoder(config).size
    scales = config.normalise and not env_spec.sparse and not cast(Any, env_spec).spaces.states  # one-hot is unscaled
    origin = cast(Any, env_spec).origin(config) if scales else ()
    norm = RunningNorm(origin) if scales or config.rewards == "scaled" else None
    function = make(inputs, head.outputs, free, stream(config.seed, WEIGHTS), config.hidden)
    return CustomPolicy(function, head, inputs, env_spec.sparse, norm, scales)


def try_out(config: TrainConfig, env_spec: EnvSpec) -> None:
    """Check that the environment matches its specification, and run a custom policy once.

    Rank 0 only, so that an error is reported once. Raises ``UsageError``, after the traceback of an error in the
    user's code.
    """
    env_spec.try_out(config)
    if config.policy == "usual":
        return
    with user_code(f"--policy {config.policy} cannot be used"):
        cast(CustomPolicy, make_policy(config, env_spec)).try_out()


def own_policy(config: TrainConfig) -> Callable[..., Any]:
    """The class of ``--policy``. Raises ``UsageError`` if there is none."""
    found: Callable[..., Any] | None = imported(config.policy, "--policy") if ":" in config.policy else None
    if not callable(found):
        raise UsageError(f"--policy {config.policy} names no class: give package.module:Class, or usual")
    return found


def _sparse(config: TrainConfig, env_spec: EnvSpec) -> Policy:
    """Make the policy on sparse inputs."""
    from pg_mpi.policy.sparse_mlp import SparseMLP  # imports scipy, which other policies do not need

    policy = SparseMLP(
        env_spec.make_encoder(config).size,
        config.hidden,
        len(env_spec.codes),
        sigmoid=config.method == "reinforce" and len(env_spec.codes) == 2,
        signed=config.features == "difference",
        plain=config.method == "reinforce",
        norm=RunningNorm() if config.rewards == "scaled" else None,
    )
    policy.initialise(stream(config.seed, WEIGHTS))
    return policy


def make_optimizer(config: TrainConfig, policy: Policy) -> Optimizer:
    """Make RMSProp for REINFORCE, as in the original, or Adam for the clipped surrogate."""
    kind: type[Optimizer] = RMSProp if config.method == "reinforce" else Adam
    return kind(policy.theta.size)


def make_learner(
    config: TrainConfig,
    policy: Policy,
    world: Collectives,
    phases: PhaseTimer,
    ranks_per_step: int = 1,
    store: ParameterStore | None = None,
) -> Learner:
    """Make the learner of a rank. Collective: every rank must call this.

    ``ranks_per_step``: as of ``Learner``; ``store``: a ``ParameterStore``, if it is not the rank's own.
    """
    store = store or ParameterStore(policy, make_optimizer(config, policy), config, world.size > 1)
    kinds: list[Any] = [Reinforce if config.method == "reinforce" else Clipped]
    if config.replay:
        kinds.append(SelfImitation)
    sources: list[GradientSource] = [kind(policy, config, world, phases) for kind in kinds]
    return Learner(store, sources, config, world, phases, ranks_per_step)
