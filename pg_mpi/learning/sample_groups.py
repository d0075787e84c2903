"""Groups of samples: all samples of a rank, or with ``--reproducible`` those of each env separately."""

import numpy as np

from pg_mpi.learning.batch import Batch

ALL = slice(None)


class SampleGroup:
    """Trajectories of some envs, with the order of their samples.

    Args:
        trajectories: one per env, or none.
        shuffle: numpy Generator that orders the samples into minibatches.
        place, places: index of this group, and number of groups, over all ranks.

    Attributes:
        batch: the samples, set by ``prepare``.
    """

    def __init__(self, trajectories, shuffle, place, places):
        self.trajectories, self._shuffle, self._place, self._places = trajectories, shuffle, place, places

    def prepare(self, policy, rewards):
        """Make the ``batch``; ``rewards`` as for ``learned``."""
        self.batch = Batch(self.trajectories, policy, rewards)

    def minibatches(self, count):
        """This group's part of each of ``count`` minibatches of an epoch: shuffled indices, or ``ALL`` if one.

        Staggered, so that the groups' remainders fall into different minibatches.
        """
        if count == 1:
            return [ALL]
        n = len(self.batch.actions)
        cuts = (np.arange(count + 1) * n + self._place * count // self._places) // count
        order = self._shuffle.permutation(n)
        return [order[a:b] for a, b in zip(cuts, cuts[1:])]


def sample_groups(trajectories, envs, config, world, envs_in_all):
    """The groups of this rank's ``trajectories``, one per env of ``envs``."""
    if config.reproducible:
        return [SampleGroup([lived], env.shuffle, env.index, envs_in_all) for lived, env in zip(trajectories, envs)]
    return [SampleGroup(trajectories, envs[0].shuffle, world.rank, world.size)]
