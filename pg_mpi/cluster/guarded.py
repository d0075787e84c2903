"""A group of ranks in which one may fail without the others waiting for it for ever: they leave what they do together.

Before each collective call all ranks vote whether one has failed. A rank that has raised an exception of its own votes
that it has, once, instead of coming to the next call; then all others raise ``PeerFailed`` there. Afterwards every rank
has voted as often as every other, and the group may go on with something else. It costs a small Allreduce a call.
"""

COLLECTIVE = {"Allreduce", "Reduce", "Bcast", "Barrier", "Ibarrier", "Split"}
COLLECTIVE |= {"gather", "allgather", "bcast", "sendrecv"}


class PeerFailed(Exception):
    """Another rank of the group has failed, and this one has heard of it."""


class Guarded:
    """A communicator whose collective calls raise ``PeerFailed`` where a rank has called ``fail`` instead."""

    def __init__(self, comm):
        self._comm = comm

    def __getattr__(self, name):
        method = getattr(self._comm, name)
        if name not in COLLECTIVE:
            return method

        def call(*args, **options):
            if self._comm.allreduce(0):
                raise PeerFailed("another rank of the group has failed")
            return method(*args, **options)

        return call

    def fail(self):
        """Tell the others that this rank will not come to the next call. To be followed by nothing else of the kind."""
        self._comm.allreduce(1)
