"""The states of envs, and of replay buffers, in checkpoints.

One rank of each group writes those of its group, and reads them on resume. A group is as large as a host, but has at
most ``ENVS`` envs: so neither time nor memory grows with the number of ranks. A run of one group is saved in one file;
otherwise each group has a part of its own (see ``checkpoint_folder``).
"""

import dataclasses
import pickle
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.errors import CheckpointError
from pg_mpi.config.settings import TrainConfig
from pg_mpi.files import checkpoint_file, checkpoint_folder
from pg_mpi.files.checkpoint_file import Arrays
from pg_mpi.learning.gradient_source import State
from pg_mpi.learning.learner import Learner
from pg_mpi.learning.rollout import Env
from pg_mpi.learning.self_imitation.replay_buffer import STATE
from pg_mpi.mpi.interface import Collectives
from pg_mpi.run.saved_run import Saved, checking

ENVS = 1024  # most envs of a group: 17 MB of Pong
REPLAYS = 8  # most ranks of a group with --replay: 20 MB each

EnvStates = dict[int, Any]  # Env.state() by the env's index
Replays = dict[int, State]  # replay_state() by the rank of the saved run


@dataclasses.dataclass(frozen=True)
class Layout:
    """How the states of a saved run are divided among its parts.

    Attributes:
        envs, ranks: of the run, on all ranks.
        group: number of ranks for each part; the last part may have fewer.
    """

    envs: int
    ranks: int
    group: int

    @classmethod
    def of(cls, facts: Any) -> "Layout | None":
        """The layout of a checkpoint; None if it is one file. Raises ``CheckpointError``."""
        if not isinstance(facts, dict) or "parts" not in facts:
            return None
        with checking():
            layout = cls(**facts["parts"])
            numbers = [layout.group, layout.ranks, layout.envs]
            if any(type(number) is not int for number in numbers) or not 0 < numbers[0] < numbers[1] <= numbers[2]:
                raise ValueError(f"parts {numbers}")
            return layout

    @property
    def parts(self) -> int:
        """The number of parts."""
        return -(-self.ranks // self.group)

    def part(self, path: str, number: int) -> str:
        """The file of a part of the checkpoint ``path``; they are numbered in the order of their ranks."""
        first = number * self.group
        return checkpoint_folder.part_of(path, first, min(first + self.group, self.ranks) - 1, self.ranks)

    def missing(self, path: str) -> str | None:
        """A part of the checkpoint ``path`` that is not there. Raises ``SystemFault``."""
        there = checkpoint_folder.parts_there(path)
        return next((part for part in map(partial(self.part, path), range(self.parts)) if part not in there), None)


def group_size(config: TrainConfig, ranks: int, hosts: int) -> int:
    """The number of ranks of a group: at most those of a host."""
    return max(1, min(-(-ranks // hosts), ENVS // config.envs_per_rank, REPLAYS if config.replay else ranks))


def gather(world: Collectives, envs: Iterable[Env], replay: State | None, group: int) -> Saved | None:
    """Gather the states of each group on its first rank: (arrays, facts); None elsewhere.

    Collective: every rank must call this. See ``run_state.collect`` for the arrays. A part has the envs' numbers,
    ``index`` int64 (E,), besides, and says in its facts which rank is its first.

    Args:
        replay: ``Learner.replay_state``.
        group: number of ranks; the world's size for one file.
    """
    blocks = world.gather_blocks(pack({env.index: env.state() for env in envs}, replay), group)
    if blocks is None:
        return None
    of_ranks = [unpack(block) for block in blocks]
    by_index = dict(sorted((index, state) for states, _ in of_ranks for index, state in states.items()))
    replays = [replay for _, replay in of_ranks if replay]
    arrays: Arrays = {}
    facts: dict[str, Any] = {"envs": [env_facts for _, env_facts in by_index.values()]}
    for name in ("emulator", "encoder"):
        each = [env_arrays[name] for env_arrays, _ in by_index.values()]
        arrays |= {f"{name}s": np.concatenate(each), f"{name}_sizes": np.array([len(state) for state in each])}
    if replays:
        facts["replay"] = [rank_facts for _, rank_facts in replays]
        for rank, (of_rank, _) in enumerate(replays, start=world.rank):
            arrays |= {f"replay_{rank}_{name}": array for name, array in of_rank.items()}
    if group < world.size:
        arrays["index"] = np.array(list(by_index))
        facts["first_rank"] = world.rank
    return arrays, facts


def decode(arrays: Arrays, facts: dict[str, Any]) -> tuple[EnvStates, Replays]:
    """The states in a checkpoint of one file, or in a part. Raises ``CheckpointError``."""
    with checking():
        emulators, encoders = (
            np.split(arrays[f"{name}s"], np.cumsum(arrays[f"{name}_sizes"])[:-1]) for name in ("emulator", "encoder")
        )
        pairs = zip(emulators, encoders, facts["envs"], strict=True)
        states = [({"emulator": emulator, "encoder": encoder}, env_facts) for emulator, encoder, env_facts in pairs]
        index = arrays.get("index", np.arange(len(states))).tolist()
        replays: Replays = {}
        for rank, rank_facts in enumerate(facts.get("replay", []), start=facts.get("first_rank", 0)):
            replays[rank] = ({name: arrays[f"replay_{rank}_{name}"] for name in STATE}, rank_facts)
        return dict(zip(index, states, strict=True)), replays


def portion(total: int, ranks: int, first: int, stop: int) -> range:
    """Those of ``total`` envs, or of the ranks of a saved run, that the ranks ``range(first, stop)`` of a run take."""
    return range(-(-first * total // ranks), -(-stop * total // ranks))


def read_parts(path: str, layout: Layout, envs: range, ranks: range) -> tuple[EnvStates, Replays]:
    """Read these envs, and the replay buffers of these ranks, from the parts of a checkpoint: as ``decode``.

    Raises ``CheckpointError`` if a part is damaged or lacks one, ``SystemFault`` if a part cannot be read.
    """
    states: EnvStates = {}
    replays: Replays = {}
    likely = envs.start * layout.parts // layout.envs  # elsewhere only if ranks were lost before
    for number in sorted(range(layout.parts), key=lambda number: abs(number - likely)):
        if len(states) == len(envs) and len(replays) == len(ranks):
            break
        there, replays_there = decode(*checkpoint_file.load(layout.part(path, number)))
        for index in filter(envs.__contains__, there):
            arrays, facts = there[index]
            states[index] = {name: array.copy() for name, array in arrays.items()}, facts  # not views of the part
        replays |= {rank: replays_there[rank] for rank in ranks if rank in replays_there}
    if len(states) < len(envs) or len(replays) < len(ranks):
        raise CheckpointError(f"{path} is not a usable checkpoint: its parts lack some envs")
    return states, replays


def first_envs(path: str, saved: Saved, count: int) -> EnvStates:
    """The states of at least the first ``count`` envs of a checkpoint. Raises as ``read_parts``."""
    layout = Layout.of(saved[1])
    if not layout:
        return decode(*saved)[0]
    return read_parts(path, layout, range(count), range(0))[0]


class GroupStates(NamedTuple):
    """What the first rank of a group has read for its group; the other ranks hold none.

    Attributes:
        group: number of ranks.
        blocks: the packed states and replay buffers of each of them.
    """

    group: int
    blocks: list[NDArray[np.uint8]]


def scatter(world: Collectives, group_states: GroupStates, learner: Learner, envs: Iterable[Env]) -> None:
    """Send each rank of a group its states, and restore them. Collective: every rank must call this.

    Raises ``CheckpointError`` on the ranks whose states are malformed.
    """
    states, replays = unpack(world.scatter_blocks(group_states.blocks, group_states.group))
    with checking():
        for env in envs:
            env.restore(*states[env.index])
        if replays:
            learner.restore_replay([(rank, *state) for rank, state in replays.items()])


def pack(*states: Any) -> NDArray[np.uint8]:
    """States as bytes, to send to another rank: uint8 (n,)."""
    return np.frombuffer(pickle.dumps(states), np.uint8)


def unpack(block: NDArray[np.uint8]) -> Any:
    """The states that ``pack`` was given."""
    return pickle.loads(block.tobytes())
