"""Settings, and what is known of the game → the parts of a run: policy, optimizer, learner."""

import numpy as np

from pg_mpi.agent.dense import Dense
from pg_mpi.agent.heads import Categorical, Gaussian
from pg_mpi.agent.optimizer import Adam, RMSProp
from pg_mpi.agent.own import Own
from pg_mpi.agent.policy import Policy
from pg_mpi.agent.scaler import Scaler
from pg_mpi.agent.tying import pixel_tie, random_rows, upside_down, with_own_rows
from pg_mpi.errors import UsageError
from pg_mpi.game import actions as game_actions
from pg_mpi.game import motion
from pg_mpi.game.shapes import HEIGHT, WIDTH
from pg_mpi.imitation import ImitatingLearner
from pg_mpi.learner import Learner
from pg_mpi.parse import imported
from pg_mpi.seeding import WEIGHTS, stream


def make_policy(config, knowledge):
    """The policy of ``config`` with its random start, the same on every rank that has the same numpy.

    Raises ``UsageError`` for one of the user's that is none.
    """
    if knowledge.sparse and config.policy == "usual":
        policy = _sparse(config, knowledge)
        policy.scaler = Scaler() if config.rewards == "scaled" else None
        return policy
    head = Gaussian(len(knowledge.spaces.low)) if knowledge.gaussian else Categorical(len(knowledge.codes))
    free = head.outputs // 2 if knowledge.gaussian else 0
    make = Dense if config.policy == "usual" else own_policy(config)
    inputs = knowledge.inputs(config)
    scales = config.normalise and not knowledge.sparse
    scaler = Scaler(knowledge.origin(config)) if scales or config.rewards == "scaled" else None
    try:
        function = make(inputs, head.outputs, free, stream(config.seed, WEIGHTS), config.hidden)
        return Own(function, head, inputs, knowledge.sparse, scaler, scales)
    except (TypeError, ValueError) as error:
        if config.policy == "usual":
            raise
        raise UsageError(f"--policy {config.policy} cannot be made: {error}") from error


def own_policy(config):
    """The class of ``--policy``. Raises ``UsageError`` for what is none."""
    found = imported(config.policy, "--policy") if ":" in config.policy else None
    if not callable(found):
        raise UsageError(f"--policy {config.policy} names no class: give package.module:Class, or usual")
    return found


def _sparse(config, knowledge):
    """The policy of sparse pixels."""
    shape, difference, colours = (HEIGHT, WIDTH), config.features == "difference", knowledge.colours
    tie, flip = pixel_tie(shape, difference, config.tiles, colours=colours), upside_down(shape, colours)
    if config.features in ("motion", "course"):
        tie = with_own_rows(tie, motion.groups(), motion.weights())
        flip = np.append(flip, len(flip) + motion.upside_down())
    plain = config.method == "reinforce"
    policy = Policy(
        [tie, tie[flip]] if knowledge.swap else [tie],
        config.hidden,
        len(knowledge.codes),
        swap=knowledge.swap,
        value=not plain,
        biases=not plain,
        parts=_parts(config, knowledge),
    )
    rows = random_rows(shape, difference, config.tiles, colours)
    policy.initialise(stream(config.seed, WEIGHTS), config.init_scale, rows)
    return policy


def _parts(config, knowledge):
    """What each action's logit is the sum of, for ``Policy``."""
    if config.action_logits == "parts":
        return np.array(game_actions.parts(knowledge.codes))
    if config.actions == "pair" and not knowledge.swap:
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
