"""Settings, and what is known of the game → the parts of a run: policy, optimizer, learner."""

import traceback

import numpy as np

from pg_mpi.config.errors import RunError, UsageError, one_line
from pg_mpi.config.parsers import imported
from pg_mpi.config.random_streams import WEIGHTS, stream
from pg_mpi.env import action_set as game_actions
from pg_mpi.learning.learner import Learner
from pg_mpi.learning.optimizer import Adam, RMSProp
from pg_mpi.learning.self_imitation.learner import ImitatingLearner
from pg_mpi.policy.custom_policy import Own, Unfit
from pg_mpi.policy.distributions import Categorical, Gaussian
from pg_mpi.policy.mlp import Dense
from pg_mpi.policy.running_norm import Scaler
from pg_mpi.policy.sparse_mlp import Policy


def make_policy(config, knowledge):
    """The policy of ``config`` with its random start, the same on every rank that has the same numpy.

    Raises ``UsageError`` for one of the user's that does not import, and what its own code raises.
    """
    if knowledge.sparse and config.policy == "usual":
        policy = _sparse(config, knowledge)
        policy.scaler = Scaler() if config.rewards == "scaled" else None
        return policy
    head = Gaussian(len(knowledge.spaces.low)) if knowledge.gaussian else Categorical(len(knowledge.codes))
    free = head.outputs // 2 if knowledge.gaussian else 0
    make = Dense if config.policy == "usual" else own_policy(config)
    inputs = knowledge.inputs(config)
    scales = config.normalise and not knowledge.sparse and not knowledge.spaces.states  # a one among zeros stays one
    scaler = Scaler(knowledge.origin(config)) if scales or config.rewards == "scaled" else None
    function = make(inputs, head.outputs, free, stream(config.seed, WEIGHTS), config.hidden)
    return Own(function, head, inputs, knowledge.sparse, scaler, scales)


def try_out(config, knowledge):
    """Look whether an environment is still what it was, and think once with a policy of the user's.

    What is wrong is found here, and said once.

    Rank 0 only. Raises ``UsageError``, after the traceback of what the user's own code raises.
    """
    knowledge.origin(config)
    knowledge.try_features(config)
    if config.policy == "usual":
        return
    try:
        make_policy(config, knowledge).try_out()
    except UsageError:
        raise
    except Exception as error:  # any: it is the user's code
        if not isinstance(error, (RunError, Unfit)):
            traceback.print_exc()
        reason = one_line(error)
        raise UsageError(f"--policy {config.policy} cannot be used: {type(error).__name__}: {reason}") from None


def own_policy(config):
    """The class of ``--policy``. Raises ``UsageError`` for what is none."""
    found = imported(config.policy, "--policy") if ":" in config.policy else None
    if not callable(found):
        raise UsageError(f"--policy {config.policy} names no class: give package.module:Class, or usual")
    return found


def _sparse(config, knowledge):
    """The policy of sparse inputs."""
    policy = Policy(
        knowledge.inputs(config),
        config.hidden,
        len(knowledge.codes),
        parts=_parts(config, knowledge),
        signed=config.features == "difference",
        plain=config.method == "reinforce",
    )
    policy.initialise(stream(config.seed, WEIGHTS))
    return policy


def _parts(config, knowledge):
    """What each action's logit is the sum of, for ``Policy``."""
    if config.action_logits == "parts":
        return np.array(game_actions.parts(knowledge.codes))
    if config.actions == "pair":
        return np.array([[1], [0]])
    return None


def make_optimizer(config, policy):
    """RMSProp for REINFORCE, as in the original; Adam for the clipped surrogate."""
    kind = RMSProp if config.method == "reinforce" else Adam
    return kind(policy.theta.size)


def make_learner(config, policy, world, phases):
    """What learns from trajectories, with the policy's optimizer."""
    kind = ImitatingLearner if config.replay else Learner
    return kind(policy, make_optimizer(config, policy), config, world, phases)
