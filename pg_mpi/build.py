"""Settings → the parts of a run: policy, optimizer, and the game knowledge they need."""

import dataclasses

import numpy as np

from pg_mpi.agent.optimizer import Adam, RMSProp
from pg_mpi.agent.policy import Policy
from pg_mpi.agent.tying import pixel_tie, random_rows, upside_down, with_own_rows
from pg_mpi.errors import UsageError
from pg_mpi.game import actions as game_actions
from pg_mpi.game import motion
from pg_mpi.game.shapes import HEIGHT, WIDTH
from pg_mpi.game.survey import find_backgrounds
from pg_mpi.imitation import ImitatingLearner
from pg_mpi.learner import Learner
from pg_mpi.seeding import WEIGHTS, stream


@dataclasses.dataclass(frozen=True)
class Knowledge:
    """What a run knows of its game before it plays.

    Attributes:
        backgrounds: uint8 (B, 80, 80), the background colours of each position.
        codes: ALE action code of each of the policy's actions.
        swap: the action each one becomes when the screen is turned upside down, or None.
    """

    backgrounds: np.ndarray
    codes: list
    swap: list | None


def learn_game(config):
    """Survey the game of ``config`` (seconds of play). Raises ``UsageError`` for an unknown game or action."""
    pairs = game_actions.mirror_pairs(config.symmetry, config.env_id)
    codes = game_actions.choose(config.actions, config.env_id, config.frame_skip)
    swap = game_actions.mirrored(codes, pairs) if pairs else None
    if len(codes) < 2:
        raise UsageError(f"{config.env_id} leaves a policy no choice with --actions {config.actions}: use minimal")
    return Knowledge(find_backgrounds(config.env_id, config.frame_skip), codes, swap)


def make_policy(config, knowledge):
    """The policy of ``config`` with its random start, the same on every rank that has the same numpy."""
    shape, difference = (HEIGHT, WIDTH), config.features == "difference"
    tie, flip = pixel_tie(shape, difference, config.tiles), upside_down(shape)
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
    policy.initialise(stream(config.seed, WEIGHTS), config.init_scale, random_rows(shape, difference, config.tiles))
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
