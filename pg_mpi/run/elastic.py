"""``--elastic``: copies of env states in memory, to play a round again without a failed rank.

The rank that plays an env and the next rank hold its state at the start of a round (buddy checkpoint: Zheng, Shi &
Kale, 2004). Weights, optimizer and counters are equal on all ranks, and change only after all ranks agree on the
update.

``mpi.ulfm`` finds the surviving ranks; ``Trainer.survive`` in ``run/trainer.py`` continues the run on them.
"""

from collections.abc import Callable, Iterable
from typing import Any

from pg_mpi.learning.rollout import Env
from pg_mpi.mpi.world import World

CHECK_EVERY = 0.05  # seconds between checks for failed ranks


class BuddyCopies:
    """Copies of this rank's envs, and of those of the rank before it.

    Args:
        total: number of envs on all ranks.

    Attributes:
        own, neighbours: ``Env.state()`` by the env's index; None where it was lost.
    """

    def __init__(self, world: World, total: int) -> None:
        self._world, self._total = world, total
        self.own: dict[int, Any] = {}
        self.neighbours: dict[int, Any] = {}

    def exchange(self, envs: Iterable[Env]) -> None:
        """Store the envs' states, on all ranks or on none. Collective. Raises ``RankLost`` if on none."""
        own = {env.index: env.state() for env in envs}
        neighbours = self._world.shift(own)
        self._world.agree()
        self.own, self.neighbours = own, neighbours

    def redistributed(self, envs: list[Env], make_env: Callable[[int], Env]) -> list[Env]:
        """Distribute the envs of failed ranks and return this rank's envs, as stored: a list.

        Collective: every rank must call this.

        Each goes to the rank with the fewest envs. It is a new one if both copies of its state were lost.
        ``make_env(index)`` makes one.
        """
        played = self._world.gather_all(sorted(self.own))
        left = sorted(set(range(self._total)).difference(*played))
        offers = self._world.gather_all({index: self.neighbours[index] for index in left if index in self.neighbours})
        counts = [len(indices) for indices in played]
        for index in left:
            rank = counts.index(min(counts))
            counts[rank] += 1
            if rank == self._world.rank:
                self.own[index] = next((offer[index] for offer in offers if index in offer), None)
        here = {env.index: env for env in envs}
        envs = [here.get(index) or make_env(index) for index in sorted(self.own)]
        for env in envs:
            if self.own[env.index] is not None:
                env.restore(*self.own[env.index])
        return envs


class StopOrLost:
    """True if ``stop`` is, or if a rank has failed, which play does not notice otherwise."""

    def __init__(self, stop: object, world: World) -> None:
        self._stop, self._world, self._next = stop, world, 0.0

    def __bool__(self) -> bool:
        if self._stop:
            return True
        now = self._world.clock()
        if now < self._next:
            return False
        self._next = now + CHECK_EVERY
        return self._world.broken()
