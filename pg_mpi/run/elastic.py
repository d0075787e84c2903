"""``--elastic``: what ranks keep in memory, so that a round can be played again without one of them.

Every env's state at the beginning of a round is held by the rank that plays it and by the next one (a buddy
checkpoint: Zheng, Shi & Kale, 2004). Weights, optimizer and counters are the same on all ranks anyway, and change only
after all ranks have agreed that the round is learned from.
"""

LOOKS = 0.05  # seconds between two looks whether a rank is gone


class BuddyCopies:
    """Copies of the envs that this rank plays, and of those that the rank before it does.

    Args:
        total: how many envs there are on all ranks.
        make_game: makes an emulator, which takes long: one for each env that may come is made beforehand.

    Attributes:
        own, held: ``Env.state()`` by the env's index.
    """

    def __init__(self, world, total, make_game):
        self._world, self._total, self._make_game = world, total, make_game
        self._games = []
        self.own, self.held = {}, {}

    def exchange(self, envs):
        """Keep the envs as they are now, all ranks or none. Collective. Raises ``RankLost`` if it is none."""
        own = {env.index: env.state() for env in envs}
        held = self._world.shift(own)
        self._world.agree()
        self.own, self.held = own, held

    def deal(self):
        """Which envs this rank plays from now on, as they were kept: {index: state}. Collective.

        Those that no rank plays any more go to the ranks that have the fewest. The state of one that was lost together
        with its copy is None.
        """
        played = self._world.gather_all(sorted(self.own))
        left = sorted(set(range(self._total)).difference(*played))
        offers = self._world.gather_all({index: self.held[index] for index in left if index in self.held})
        counts = [len(indices) for indices in played]
        for index in left:
            rank = counts.index(min(counts))
            counts[rank] += 1
            if rank == self._world.rank:
                self.own[index] = next((offer[index] for offer in offers if index in offer), None)
        return self.own

    def make_ahead(self):
        """Make one emulator more, if there are too few for the next loss."""
        left = self._world.size - 1
        if left and len(self._games) < -(-self._total // left) - len(self.own):
            self._games.append(self._make_game())

    def dealt(self, envs, make_env):
        """``deal``, and the envs themselves as they were kept: a list. Collective.

        ``make_env(index, game)`` makes one with an emulator, or with None of its own.
        """
        here, states = {env.index: env for env in envs}, self.deal()
        envs = [here.get(i) or make_env(i, self._games.pop() if self._games else None) for i in sorted(states)]
        for env in envs:
            if states[env.index] is not None:
                env.restore(*states[env.index])
        return envs


class StopOrLost:
    """True once ``stop`` is, or a rank is gone: ranks that play have no other way to hear of it."""

    def __init__(self, stop, world):
        self._stop, self._world, self._next = stop, world, 0.0

    def __bool__(self):
        if self._stop:
            return True
        now = self._world.clock()
        if now < self._next:
            return False
        self._next = now + LOOKS
        return self._world.broken()
