"""Failure votes, so that all ranks of a group leave a task when one of them raises an exception.

Before each collective call all ranks vote on whether one has failed. A failed rank casts one such vote in place of its
next call, and the other ranks raise ``PeerFailed`` there. All ranks have then voted equally often, and the group can
continue with another task. A vote costs an Allreduce of one byte per call.

An exception that MPI raises within a call cannot be reported to the other ranks and ends the job.
"""

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpi4py.MPI import Comm, Request

COLLECTIVE = {"Allreduce", "Bcast", "Barrier", "Split", "gather", "allgather", "bcast", "sendrecv"}
PAUSE = 0.002  # seconds between two tests by a rank that sleeps


class PeerFailed(Exception):
    """Another rank of the group has failed."""


class CallFailed(BaseException):
    """A collective call has failed on this rank; other ranks may still be in it."""


class FailureVote:
    """A communicator whose collective calls raise ``PeerFailed`` if another rank has called ``fail``."""

    def __init__(self, comm: "Comm") -> None:
        self._comm = comm

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._comm, name)
        if name not in COLLECTIVE:
            return method

        def call(*args: Any, **options: Any) -> Any:
            self._vote()
            try:
                return method(*args, **options)
            except Exception as error:
                raise CallFailed(f"{name}: {error}") from error

        return call

    def Ibarrier(self) -> "Request":
        """As MPI's, for ranks that sleep until a slow rank arrives; they sleep during the vote too."""
        self._vote(asleep=True)
        return self._comm.Ibarrier()

    def fail(self) -> None:
        """Vote that this rank has failed, in place of its next collective call."""
        self._cast(True).Wait()

    def _vote(self, asleep: bool = False) -> None:
        ballot = self._cast(False)
        while asleep and not ballot.Test():
            time.sleep(PAUSE)
        ballot.Wait()
        if self._votes[0]:
            raise PeerFailed("another rank of the group has failed")

    def _cast(self, failed: bool) -> "Request":
        """Start the Allreduce (or) of the votes; return its request. Blocking and nonblocking calls do not match."""
        from mpi4py import MPI

        self._votes = bytearray([failed])
        return self._comm.Iallreduce(MPI.IN_PLACE, [self._votes, MPI.BYTE], op=MPI.BOR)
