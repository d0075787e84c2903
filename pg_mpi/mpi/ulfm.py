"""Continue without failed ranks, where MPI has User-Level Failure Mitigation (ULFM: Bland et al., 2013).

After a failure the methods of a ``World`` raise an error that ``is_loss`` recognises, on some ranks sooner than on
others, and not at all on a rank that needs nothing from the failed one. The survivors therefore agree regularly that
no rank has failed: in ``agree``, and in ``shrink`` after any other method has raised.
"""

import os
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from pg_mpi.mpi.launch import launch_variables

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

FT_ENABLED = "OMPI_MCA_mpi_ft_enable"  # set by mpirun
PATIENCE = 4.0  # seconds until a rank that ends the job stops the launcher


class RankLost(Exception):
    """The ranks have agreed that one of them has failed."""


class ShrinkingWorld:
    """Base class of ``World`` that handles failed ranks."""

    _comm: "Comm"

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self.rank: int = comm.Get_rank() if comm else 0
        self.size: int = comm.Get_size() if comm else 1
        self._met = False  # an ``agree`` has failed on all survivors, so ``shrink`` needs no other meeting

    def can_shrink(self) -> bool:
        """Whether survivors can continue after a failure: Open MPI, ``mpirun --with-ft ulfm``. Not collective."""
        enabled = os.environ.get(FT_ENABLED, "0").lower() in ("1", "true", "yes")
        return enabled and self._comm is not None and hasattr(self._comm, "Shrink")

    def is_loss(self, error: BaseException) -> bool:
        """Whether the exception reports a failed rank. Not collective."""
        if isinstance(error, RankLost):
            return True
        if not self.can_shrink():
            return False
        from mpi4py import MPI

        classes = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED)
        return isinstance(error, MPI.Exception) and error.Get_error_class() in classes

    def broken(self) -> bool:
        """Whether a rank is known to have failed; if so, notify all others. Takes 0.1 ms. Not collective."""
        if self.size == 1:
            return False
        from mpi4py import MPI

        try:
            self._comm.Iprobe()  # lets MPI process failure notices
        except MPI.Exception as error:
            if not self.is_loss(error):
                raise
        if self._comm.Is_revoked():
            return True
        if self._comm.Get_failed().Get_size():
            self._comm.Revoke()
            return True
        return False

    def agree(self) -> None:
        """Return once every rank has called this, or raise ``RankLost`` on all survivors."""
        if self.size > 1 and not self._meet(True):
            self._met = True
            raise RankLost("a rank is gone")

    def _meet(self, well: bool) -> bool:
        """Whether all ranks take part and pass ``well``; equal on all survivors."""
        from mpi4py import MPI

        try:
            return self._comm.Agree(int(well)) == 1
        except MPI.Exception as error:
            if not self.is_loss(error):
                raise
            return False

    def shrink(self, leaving: int = 0) -> list[int]:
        """Continue without the failed ranks: renumber the survivors and return a list of the failed ranks' numbers.

        ``leaving``: nonzero exit code of a rank that ends the whole job; then every rank ends its process.
        Raises an error that ``is_loss`` recognises if another rank fails meanwhile; then call it again.
        """
        if not self._met:
            self._comm.Revoke()
            self._meet(False)
        self._met = False
        before, self._comm = self._comm, self._comm.Shrink()
        old, new = before.Get_group(), self._comm.Get_group()
        gone = type(old).Difference(old, new)
        lost = gone.Translate_ranks(None, old)
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()
        codes = self._comm.allgather(leaving)
        if any(codes):
            if self.rank == 0 and lost:
                named = ", ".join(map(str, lost))
                print(f"pg_mpi: rank {named} of {before.Get_size()} is gone: the whole job ends", file=sys.stderr)
            sys.stdout.flush()
            os._exit(max(codes))
        return lost

    def leave_together(self, code: int) -> NoReturn:
        """End this process and all others, which MPI_Abort would spare. Not collective."""
        threading.Timer(PATIENCE, _end_it_all, [code]).start()  # other ranks may not respond
        while True:
            try:
                self.shrink(leaving=code)
            except Exception as error:
                if not self.is_loss(error):
                    os._exit(code)


def _end_it_all(code: int) -> NoReturn:
    launch_variables.end_job()
    os._exit(code)
