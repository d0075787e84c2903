"""Groups of samples: all samples of a rank, or with ``--reproducible`` those of each env separately."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.settings import TrainConfig
from pg_mpi.learning.rollout import Env
from pg_mpi.learning.trajectory import Trajectory
from pg_mpi.mpi.interface import Collectives

ALL = slice(None)
Chosen = slice | NDArray[np.integer[Any]]


class SampleGroup:
    """Trajectories of some envs, with the order of their samples.

    Args:
        trajectories: one per env, or none.
        shuffle: orders the samples into minibatches.
        place, places: index of this group, and number of groups, over all ranks.
    """

    def __init__(
        self, trajectories: Sequence[Trajectory], shuffle: np.random.Generator, place: int, places: int
    ) -> None:
        self.trajectories, self._shuffle, self._place, self._places = trajectories, shuffle, place, places

    def minibatches(self, count: int) -> list[Chosen]:
        """This group's part of each of ``count`` minibatches of an epoch: shuffled indices, or ``ALL`` if one.

        Staggered, so that the groups' remainders fall into different minibatches.
        """
        if count == 1:
            return [ALL]
        n = sum(trajectory.length for trajectory in self.trajectories)
        cuts = (np.arange(count + 1) * n + self._place * count // self._places) // count
        order = self._shuffle.permutation(n)
        return [order[a:b] for a, b in zip(cuts, cuts[1:])]


def sample_groups(
    trajectories: Sequence[Trajectory], envs: Sequence[Env], config: TrainConfig, world: Collectives, envs_in_all: int
) -> list[SampleGroup]:
    """Group this rank's ``trajectories``, one per env of ``envs``: all in one, or one each with ``--reproducible``."""
    if config.reproducible:
        return [
            SampleGroup([trajectory], env.shuffle, env.index, envs_in_all)
            for trajectory, env in zip(trajectories, envs)
        ]
    return [SampleGroup(trajectories, envs[0].shuffle, world.rank, world.size)]
