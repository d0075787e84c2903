"""A group of ranks in which one may fail without the others waiting for it for ever: they leave what they do together.

Before each collective call all ranks vote whether one has failed. A rank that has raised an exception of its own votes
that it has, once, instead of coming to the next call; then all others raise ``PeerFailed`` there. Afterwards every rank
has voted as often as every other, and the group may go on with something else. It costs an Allreduce of a byte a call.

Within a call nobody can be told: what MPI itself raises there ends the job.
"""

import time

COLLECTIVE = {"Allreduce", "Reduce", "Bcast", "Barrier", "Split", "gather", "allgather", "bcast", "sendrecv"}
PAUSE = 0.002  # seconds between two looks of a rank that sleeps


class PeerFailed(Exception):
    """Another rank of the group has failed, and this one has heard of it."""


class CallFailed(BaseException):
    """A collective call has failed on this rank, and the others may be in it still."""


class FailureVote:
    """A communicator whose collective calls raise ``PeerFailed`` where a rank has called ``fail`` instead."""

    def __init__(self, comm):
        self._comm = comm

    def __getattr__(self, name):
        method = getattr(self._comm, name)
        if name not in COLLECTIVE:
            return method

        def call(*args, **options):
            self._vote()
            try:
                return method(*args, **options)
            except Exception as error:
                raise CallFailed(f"{name}: {error}") from error

        return call

    def Ibarrier(self):
        """As MPI's, for those who sleep until a slow rank comes: they sleep until its vote, too."""
        self._vote(asleep=True)
        return self._comm.Ibarrier()

    def fail(self):
        """Tell the others that this rank will not come to the next call."""
        self._cast(True).Wait()

    def _vote(self, asleep=False):
        ballot = self._cast(False)
        while asleep and not ballot.Test():
            time.sleep(PAUSE)
        ballot.Wait()
        if self._votes[0]:
            raise PeerFailed("another rank of the group has failed")

    def _cast(self, failed):
        """Every rank's vote, or-ed: a request. Blocking and other calls do not match, so all votes are of this kind."""
        from mpi4py import MPI

        self._votes = bytearray([failed])
        return self._comm.Iallreduce(MPI.IN_PLACE, [self._votes, MPI.BYTE], op=MPI.BOR)
