"""What changes in the course of a run: numbers made of the share of ``--anneal-timesteps`` that is gone, 0 to 1."""

ANNEALED = 0.1  # where annealing ends, as a share of the start
WEIGHING = (0.25, 0.5)  # the shares between which the weight of losses grows
GROWING = (0.1, 0.4)  # the shares between which rollouts grow


def share(anneal_timesteps, env_steps):
    """How much of the annealing is gone; it stays at its start where it is to take 0 steps."""
    return min(1.0, env_steps / anneal_timesteps) if anneal_timesteps else 0.0


def anneal(gone):
    """The factor on the learning rate, or the desired KL, and on the entropy bonus."""
    return 1 - (1 - ANNEALED) * gone


def loss_weight(first, gone):
    """The factor on rewards below 0, from ``first`` to 1.

    A new policy that is punished for each ball it misses learns the safest way to return it, and then keeps to the
    shot that comes of that; one that is first of all paid for winning looks for the shot that wins.
    """
    return first + (1 - first) * _between(WEIGHING, gone)


def rollouts(growth, gone):
    """How many of the first rollouts make up one update's samples: a whole number, 1 to ``growth``."""
    return 1 + int((growth - 1) * _between(GROWING, gone))


def _between(shares, gone):
    """0 up to the first of two shares, 1 from the second on, and straight in between."""
    begin, end = shares
    return min(1.0, max(0.0, (gone - begin) / (end - begin)))
