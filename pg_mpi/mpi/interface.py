"""The protocol of a group of ranks: the collectives that training uses.

``World`` follows it over MPI, ``scaling.model.virtual.world.VirtualWorld`` with threads and a virtual clock, and
``scaling.measure.one_rank_of_many.Alone`` without any exchange. Only ``World`` has what
``--elastic`` and several hosts need besides.
"""

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import NDArray

Array = NDArray[Any]


class Collectives(Protocol):
    """Collective, but for ``clock`` and ``cpu_clock``: every rank must call each method, in the same order.

    A name that ends in an underscore changes its argument in place.

    Attributes:
        rank, size: this process's number, and how many there are.
        divides: whether optimizer steps may be divided among the ranks.
    """

    rank: int
    size: int
    divides: bool

    def clock(self) -> float:
        """Seconds, as ``time.monotonic``."""

    def cpu_clock(self) -> float:
        """Processor seconds of this rank, as ``time.process_time``."""

    def sum_(self, array: Array) -> Array:
        """Replace ``array`` by its sum over ranks."""

    def max_(self, array: Array) -> Array:
        """Replace ``array`` by its maximum over ranks."""

    def merge_(self, array: Array, function: Callable[[Array, Array], Array]) -> Array:
        """Replace ``array`` by ``function`` of it and those of the other ranks, two at a time, in any order."""

    def any(self, *flags: Any) -> list[bool]:
        """For each flag, whether it is set on any rank."""

    def broadcast_(self, array: Array) -> Array:
        """Replace ``array`` by rank 0's."""

    def barrier(self) -> None:
        """Return once every rank has called."""

    def gather_all(self, item: Any) -> list[Any]:
        """Every rank's ``item`` in rank order, on every rank."""

    def gather_blocks(self, array: Array, each: int) -> list[Array] | None:
        """The 1-d arrays, of any length, of ``each`` ranks in rank order on the first of them; None elsewhere."""

    def scatter_blocks(self, blocks: list[Array], each: int) -> Array:
        """Send each rank its uint8 array, of any length, from the list that the first of its ``each`` ranks has."""

    def on_every(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call ``function(*args)`` on every rank; if it raises on one, every rank raises its exception."""

    def on_root(self, function: Callable[..., Any], *args: Any, asleep: bool = False) -> Any:
        """Call ``function(*args)`` on rank 0 alone; every rank returns its result or raises its exception.

        ``asleep``: it takes long, so the others sleep until it is done.
        """


class Divisible(Collectives, Protocol):
    """What divided optimizer steps also need. ``VirtualWorld`` lacks it: it charges them without an exchange."""

    def split(self, each: int) -> "tuple[Divisible, Divisible]":
        """The ``each`` consecutive ranks around this one, and the ranks with its place among theirs."""

    def share(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array of zeros that all ranks share. Raises ``OSError`` on all ranks if there can be none."""

    def sum_rows(self, rows: Array, part: slice, out: Array) -> Array:
        """Write the sum of the ranks' rows of a shared array into ``out``. Not collective."""
