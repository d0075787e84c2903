"""Going on without ranks that die, where MPI has User-Level Failure Mitigation (ULFM: Bland et al., 2013).

Then every verb of a ``World`` raises an error that ``is_loss`` knows, on some ranks sooner than on others, and on one
that needs nothing from the dead rank not at all. So all that are left must meet now and then, to agree whether all is
well: in ``agree``, and in ``mend`` after anything else has raised. These are the only two places where they can.
"""

import os
import sys
import threading

from pg_mpi.mpi.launch import launch_env

FT_ENABLED = "OMPI_MCA_mpi_ft_enable"  # as mpirun tells its ranks
PATIENCE = 4.0  # seconds that a rank which ends the job gives the others to hear of it


class RankLost(Exception):
    """Ranks have agreed that one of them is gone."""


class ShrinkingWorld:
    """The part of a ``World`` that outlives its ranks.

    Attributes:
        losses: how many ranks it has lost.
    """

    def __init__(self, comm):
        self._comm, self.losses = comm, 0
        self._met = False  # in an ``agree`` that failed: the others will not meet there again

    def can_shrink(self):
        """Whether the others can go on when a rank dies: Open MPI under ``mpirun --with-ft ulfm``. Not collective."""
        enabled = os.environ.get(FT_ENABLED, "0").lower() in ("1", "true", "yes")
        return enabled and self._comm is not None and hasattr(self._comm, "Shrink")

    def is_loss(self, error):
        """Whether this exception says that a rank is gone. Not collective."""
        if isinstance(error, RankLost):
            return True
        if not self.can_shrink():
            return False
        from mpi4py import MPI

        classes = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED)
        return isinstance(error, MPI.Exception) and error.Get_error_class() in classes

    def broken(self):
        """Whether a rank is known to be gone; then all others will hear of it. Takes 0.1 ms. Not collective."""
        if self.size == 1:
            return False
        from mpi4py import MPI

        try:
            self._comm.Iprobe()  # moves MPI's own news along
        except MPI.Exception as error:
            if not self.is_loss(error):
                raise
        if self._comm.Is_revoked():
            return True
        if self._comm.Get_failed().Get_size():
            self._comm.Revoke()
            return True
        return False

    def agree(self):
        """Return once every rank is here, on all of them; or raise ``RankLost`` on all that are left."""
        if self.size > 1 and not self._meet(True):
            self._met = True
            raise RankLost("a rank is gone")

    def _meet(self, well):
        """Whether all ranks are here and well; the same on all that are left."""
        from mpi4py import MPI

        try:
            return self._comm.Agree(int(well)) == 1
        except MPI.Exception as error:
            if not self.is_loss(error):
                raise
            return False

    def shrink(self, leaving=0):
        """Go on without the ranks that are gone: a list of the numbers they had; the others are numbered anew.

        ``leaving``: an exit code of a rank that wants to end the whole job: then this ends the process, on every rank.
        May raise an error that ``is_loss`` knows when one more is lost; then call it again.
        """
        if not self._met:
            self._comm.Revoke()
            self._meet(False)
        self._met = False
        before, self._comm = self._comm, self._comm.Shrink()
        old, new = before.Get_group(), self._comm.Get_group()
        gone = type(old).Difference(old, new)
        lost = gone.Translate_ranks(None, old)
        self.rank, self.size, self.losses = self._comm.Get_rank(), self._comm.Get_size(), self.losses + len(lost)
        codes = self._comm.allgather(leaving)
        if any(codes):
            if self.rank == 0 and lost:
                named = ", ".join(map(str, lost))
                print(f"pg_mpi: rank {named} of {before.Get_size()} is gone: the whole job ends", file=sys.stderr)
            sys.stdout.flush()
            os._exit(max(codes))
        return lost

    def leave_together(self, code):
        """End this process and soon all others, for MPI_Abort would spare them. Not collective."""
        threading.Timer(PATIENCE, _end_it_all, [code]).start()  # for some may not listen
        while True:
            try:
                self.shrink(leaving=code)
            except Exception as error:
                if not self.is_loss(error):
                    os._exit(code)


def _end_it_all(code):
    launch_env.end_job()
    os._exit(code)
