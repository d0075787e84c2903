"""What changes in the course of a run, as ``--anneal-timesteps`` go by; nothing does where they are 0."""

import dataclasses

ANNEALED = 0.1  # where the learning rate and the entropy bonus end, as a share of their start
SLOWED = 0.4  # where the desired KL ends: rollouts that have grown bear longer steps
GROWING = (0.1, 0.4)  # the shares of the annealing between which rollouts grow
WEIGHING = (0.25, 0.5)  # and those between which the weight of losses grows
PACE_MOST = 100.0  # while no reward comes, no step moves the policy, and the pace would grow for ever
PACE_POWER, PACE_LIMIT = 0.25, 1.15  # gentle: an update's KL is itself a noisy figure


@dataclasses.dataclass(frozen=True)
class Stage:
    """The numbers that an update learns with.

    Attributes:
        anneal: factor on the entropy bonus, and on the learning rate where no KL paces it.
        kl: factor on the desired KL.
        loss_weight: factor on rewards below 0. A new policy that is punished for each ball it misses learns the safest
            way to return it, and keeps to the shot that comes of that; one that is first of all paid for winning
            looks for the shot that wins.
        rollouts: how many of the first updates' rollouts make up one.
    """

    anneal: float = 1.0
    kl: float = 1.0
    loss_weight: float = 1.0
    rollouts: int = 1


PLAIN = Stage()


def stage(config, env_steps):
    """The ``Stage`` of a run with these settings after so many steps."""
    gone = min(1.0, env_steps / config.anneal_timesteps) if config.anneal_timesteps else 0.0
    return Stage(
        anneal=1 - (1 - ANNEALED) * gone,
        kl=1 - (1 - SLOWED) * gone,
        loss_weight=config.loss_weight + (1 - config.loss_weight) * _between(WEIGHING, gone),
        rollouts=1 + int((config.rollout_growth - 1) * _between(GROWING, gone)),
    )


def faster(kl, desired):
    """The factor on the next step that brings its KL nearer to the desired one, after an update of this ``kl``.

    1 where there is none to go by: a KL is estimated, and rounding may make a tiny one negative.
    """
    if not (kl and kl > 0):
        return 1.0
    return min(PACE_LIMIT, max(1 / PACE_LIMIT, (desired / kl) ** PACE_POWER))


def paced(pace, kl, desired):
    """The factor on the learning rate after an update of this ``kl``: between 0.01 and 100."""
    return min(PACE_MOST, max(1 / PACE_MOST, pace * faster(kl, desired)))


def _between(shares, gone):
    """0 up to the first of two shares, 1 from the second on, and straight in between."""
    begin, end = shares
    return min(1.0, max(0.0, (gone - begin) / (end - begin)))
