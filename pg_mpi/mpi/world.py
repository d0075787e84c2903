"""The ranks of a job and the collective operations between them.

Every method of ``World`` is collective (every rank must call it) unless its docstring says otherwise. ``World()``
without a communicator has one rank and needs no MPI. mpi4py is imported only here, in ``ulfm`` and in
``group_failure_vote``.
"""

import os
import pickle
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, cast

from pg_mpi import STARTED
from pg_mpi.config.errors import UsageError, agreed
from pg_mpi.mpi.group_failure_vote import FailureVote, PeerFailed
from pg_mpi.mpi.launch import launch_variables, stale_segments
from pg_mpi.mpi.launch.mpirun import set_environment
from pg_mpi.mpi.ulfm import ShrinkingWorld

if TYPE_CHECKING:
    from pg_mpi.mpi.interface import Array

PIECE = 1 << 26  # elements per message: MPI's byte counts have 31 bits


def portable(error: Exception) -> Exception:
    """Return the exception if it can be pickled, else a ``RuntimeError`` with its type and text."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:  # any: an exception class may define its own pickling
        return RuntimeError(f"{type(error).__name__}: {error}")


def attempt(function: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """Return (result, None) or (None, exception) of a call for whose outcome other ranks wait."""
    try:
        return function(*args), None
    except Exception as error:  # any: all ranks raise it
        return None, error


class World(ShrinkingWorld):
    """A communicator reduced to what training needs.

    Attributes:
        rank, size: the number of this process, and of all processes.
        divides: whether ``split`` may be used: not in a ``group``.
        clock, cpu_clock: functions that return wall and CPU time in seconds, by default ``time.monotonic`` and
            ``time.process_time``.
    """

    clock: Callable[[], float] = staticmethod(time.monotonic)
    cpu_clock: Callable[[], float] = staticmethod(time.process_time)

    def __init__(self, comm: Any = None) -> None:
        super().__init__(comm)
        self.divides = not isinstance(comm, FailureVote)

    def is_part(self) -> bool:
        """Whether ranks of MPI.COMM_WORLD are missing here; True without a communicator. Not collective."""
        if self._comm is None:
            return True
        from mpi4py import MPI

        return bool(self.size < MPI.COMM_WORLD.size)

    def restart_clock(self) -> None:
        """Count wall time as if this process had started now, for a run that begins later. Not collective."""
        now, begun = type(self).clock, type(self).clock()
        self.clock = lambda: STARTED + now() - begun

    def sum_(self, array: "Array") -> "Array":
        """Allreduce: replace ``array`` by its sum over ranks, in place."""
        self._reduce(array, "SUM")
        return array

    def max_(self, array: "Array") -> "Array":
        """Allreduce: replace ``array`` by its maximum over ranks, in place."""
        self._reduce(array, "MAX")
        return array

    def _reduce(self, buffer: Any, operation: str) -> None:
        """Reduce a buffer of mpi4py over ranks, in place, by the operation of MPI with this name."""
        if self.size > 1:
            from mpi4py import MPI

            self._comm.Allreduce(MPI.IN_PLACE, buffer, op=getattr(MPI, operation))

    def merge_(self, array: "Array", function: Callable[["Array", "Array"], "Array"]) -> "Array":
        """Allreduce with an operation of your own: replace ``array`` by its reduction over ranks, in place.

        ``function(a, b)`` returns an array of the same shape and dtype; it must be associative and commutative.
        """
        if self.size > 1:
            import numpy as np
            from mpi4py import MPI

            def combine(a: Any, b: Any, _: Any) -> None:
                ones, others = (np.frombuffer(each, array.dtype).reshape(-1, *array.shape) for each in (a, b))
                for one, other in zip(ones, others):  # none or one: Open MPI also passes empty parts between hosts
                    other[...] = function(one, other)

            operation = MPI.Op.Create(combine, commute=True)
            whole = MPI.BYTE.Create_contiguous(array.nbytes).Commit()  # one element, which MPI does not divide
            try:
                self._comm.Allreduce(MPI.IN_PLACE, [array, 1, whole], operation)
            finally:
                operation.Free()
                whole.Free()
        return array

    def any(self, *flags: Any) -> list[bool]:
        """Allreduce: for each flag, whether any rank sets it; a list of bools, equal on all ranks."""
        votes = bytearray(map(bool, flags))
        self._reduce([votes, "B"], "BOR")
        return list(map(bool, votes))

    def broadcast_(self, array: "Array") -> "Array":
        """Broadcast: replace ``array`` by rank 0's, in place."""
        if self.size > 1:
            self._comm.Bcast(array, root=0)
        return array

    def barrier(self) -> None:
        """Barrier: return once every rank has called this."""
        if self.size > 1:
            self._comm.Barrier()

    def split(self, each: int) -> tuple["World", "World"]:
        """Split: the ``each`` consecutive ranks around this one, and the ranks with its place among theirs.

        ``each`` must divide the number of ranks.
        """
        if self.size == 1:
            return World(), World()
        group, place = divmod(self.rank, each)
        return World(self._comm.Split(group, self.rank)), World(self._comm.Split(place, self.rank))

    def share(self, shape: tuple[int, ...], dtype: Any) -> "Array":
        """Allocate an array of zeros that all ranks share, which must be on one host.

        Raises ``OSError`` on all ranks. See ``shared_memory``.
        """
        from pg_mpi.mpi.shared_memory import shared_array

        return shared_array(self, shape, dtype)

    def sum_rows(self, rows: "Array", part: slice, out: "Array") -> "Array":
        """Write the sum of the rows of all ranks, in rank order, into ``out``. Not collective.

        ``rows``: (ranks, n), shared; ``part``: of the n columns.
        """
        out[...] = rows[0, part]
        for row in rows[1:]:
            out += row[part]
        return out

    def gather(self, item: Any) -> list[Any] | None:
        """Gather: a list of every rank's ``item`` in rank order on rank 0; None elsewhere."""
        return self._comm.gather(item, root=0) if self.size > 1 else [item]

    def gather_all(self, item: Any) -> list[Any]:
        """Allgather: a list of every rank's ``item`` in rank order, on every rank."""
        return self._comm.allgather(item) if self.size > 1 else [item]

    def gather_blocks(self, array: "Array", each: int) -> list["Array"] | None:
        """Gather 1-d arrays of any length on the first of every ``each`` ranks: a list in rank order; else None."""
        self.barrier()
        first = self.rank - self.rank % each
        if self.rank > first:
            self._send(array, first)
            return None
        return [array, *(self._receive(array.dtype, rank) for rank in self._others(each))]

    def scatter_blocks(self, blocks: list["Array"], each: int) -> "Array":
        """Scatter: a 1-d uint8 array, of any length, from the list of the first of every ``each`` ranks."""
        self.barrier()
        first = self.rank - self.rank % each
        if self.rank > first:
            return self._receive("uint8", first)
        for rank, block in zip(self._others(each), blocks[1:], strict=True):
            self._send(block, rank)
        return blocks[0]

    def _others(self, each: int) -> range:
        return range(self.rank + 1, min(self.rank + each, self.size))

    def _send(self, array: "Array", rank: int) -> None:
        self._comm.send(len(array), dest=rank)
        for first in range(0, len(array), PIECE):
            self._comm.Send(array[first : first + PIECE], dest=rank)

    def _receive(self, dtype: Any, rank: int) -> "Array":
        import numpy as np

        array = np.empty(self._comm.recv(source=rank), dtype)
        for first in range(0, len(array), PIECE):
            self._comm.Recv(array[first : first + PIECE], source=rank)
        return array

    def on_root(self, function: Callable[..., Any], *args: Any, asleep: bool = False) -> Any:
        """Call ``function(*args)`` on rank 0 only and broadcast its result or its exception.

        ``asleep``: for long calls. The other ranks sleep instead of spinning on cores that rank 0 may need.
        """
        result, error = attempt(function, *args) if self.rank == 0 else (None, None)
        if self.size > 1:
            if asleep:
                self.meet(pause=0.002)
            shared = self._comm.bcast((result, error and portable(error)), root=0)
            if self.rank:  # rank 0 keeps its own: bcast returns a copy there too, and a copy holds no lock
                result, error = shared
        if error is not None:
            raise agreed(error)
        return result

    def on_every(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call ``function(*args)`` on every rank; if it raises, all ranks raise the lowest failed rank's exception."""
        import numpy as np

        result, error = attempt(function, *args)
        failed = -int(self.max_(np.array([-self.rank if error else -self.size]))[0])
        if failed == self.size:
            return result
        if self.size > 1:
            shared = self._comm.bcast(error and portable(error), root=failed)
            error = error if self.rank == failed else shared
        raise agreed(error)

    def shift(self, item: Any) -> Any:
        """Send ``item`` to the next rank; return the item of the previous rank."""
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        return self._comm.sendrecv(item, dest=after, source=before) if self.size > 1 else item

    def group(self, colour: int) -> "World":
        """The ``World`` of the ranks with the same ``colour``, in rank order.

        A rank that raises an exception can report it to the others: see ``report_failure``.
        """
        return World(FailureVote(self._comm.Split(colour, self.rank))) if self.size > 1 else World()

    def report_failure(self, error: BaseException) -> None:
        """Make the other ranks of a ``group`` raise ``PeerFailed``, unless all know of ``error``. Not collective."""
        if self.size > 1 and not isinstance(error, PeerFailed) and not getattr(error, "agreed", False):
            cast(FailureVote, self._comm).fail()

    def meet(self, meanwhile: Callable[[], object] = lambda: None, pause: float = 0.05) -> None:
        """Barrier that sleeps, and calls ``meanwhile()`` every ``pause`` seconds until every rank has called this."""
        if self.size > 1:
            here = self._comm.Ibarrier()
            while not here.Test():
                meanwhile()
                time.sleep(pause)

    def mpi_version(self) -> str:
        """Name and version of the MPI library, one line; ``none`` without MPI. Not collective."""
        if not self._comm:
            return "none"
        from mpi4py import MPI

        return MPI.Get_library_version().strip("\0 \n").splitlines()[0].split(", package")[0]

    def abort(self, code: int) -> NoReturn:
        """End every rank at once with exit code ``code``. Not collective."""
        if self.can_shrink():
            self.leave_together(code)
        elif self._comm:
            self._comm.Abort(code)
        os._exit(code)


def connect(optional: bool = False) -> World:
    """Start MPI and return its ``World``. Raises ``UsageError`` if MPI cannot be loaded.

    ``optional``: return a world of one instead, unless the launcher started several processes.
    """
    set_environment()
    if launch_variables.is_first_on_host():
        stale_segments.remove()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        if optional and (launch_variables.promised() or 1) == 1:
            return World()
        line = str(error).strip().splitlines()[0]
        remedy = "pip install 'pg_mpi[mpi]' brings one"
        for name in {"MPI4PY_MPIABI", "MPI4PY_LIBMPI"} & os.environ.keys():
            remedy = f"{name}={os.environ[name]} asks for it: load the module that has it, or unset {name}"
        raise UsageError(f"MPI cannot be loaded ({line}): {remedy}") from None
    return World(MPI.COMM_WORLD)
