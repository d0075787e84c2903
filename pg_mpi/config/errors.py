"""Errors that a user can cause. Each message is one line with the remedy.

What a file contains can make it damaged. What the operating system reports never does: it is a ``SystemFault``, and
no file is renamed, dropped or written because of it.
"""

import contextlib
import errno
import sys
import traceback
from collections.abc import Iterator
from typing import Any, TypeVar, cast

_AnyError = TypeVar("_AnyError", bound=Exception)

#: Exit code: the same command continues, so a chain of jobs runs it again.
RUN_AGAIN = 75
#: Error numbers whose cause may pass: exit code ``RUN_AGAIN``. Any other has exit code 1.
MAY_PASS = frozenset(
    (errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.EINTR, errno.ETIMEDOUT, errno.ENOLCK)
)
#: Further error numbers of which the reason and the path are all that a user needs to know.
REFUSED = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))
#: Error numbers that an unsuitable path causes: exit code 2 if the user gave it.
UNSUITABLE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP))


class UsageError(Exception):
    """The command, the settings or the run folder are wrong: one line, exit code 2, nothing written.

    ``agreed`` is True if every rank raises it together, so that all ranks can exit in order.
    """

    agreed = False
    code = 2


class RunError(Exception):
    """The job cannot continue: one line with the reason, exit code 1. Saved files stay.

    ``agreed``: as of ``UsageError``.
    """

    agreed = False
    code = 1


class CheckpointError(UsageError):
    """The content of a file is not a usable checkpoint: truncated, damaged or foreign."""


class SystemFault(RunError):
    """The operating system refused an operation on a file, or memory: one line, exit code 75 or 1."""

    def __init__(self, line: str, may_pass: bool = False) -> None:
        super().__init__(line)
        self.code = RUN_AGAIN if may_pass else 1


def warn(line: str) -> None:
    """Print a warning line on standard error."""
    print(f"pg_mpi: warning: {line}", file=sys.stderr, flush=True)


def one_line(value: object) -> str:
    """The text of an error or of any value, without line breaks."""
    return " ".join(str(value).split())


def described(error: BaseException) -> str:
    """The type and text of an error, without line breaks."""
    return f"{type(error).__name__}: {one_line(error)}"


def agreed(error: _AnyError) -> _AnyError:
    """Mark and return an error that every rank raises together, so that all ranks can exit in order."""
    cast(Any, error).agreed = True
    return error


def counted(number: int, what: str) -> str:
    """A number and its noun, as ``1 rank`` or ``2,048 ranks``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def reportable(error: BaseException) -> UsageError | RunError | None:
    """The error of one line for ``error``: itself, or a ``SystemFault``; None if only a traceback tells its cause."""
    if isinstance(error, (UsageError, RunError)):
        return error
    about: SystemFault | None = None
    if isinstance(error, MemoryError):
        line = f"out of memory{f' ({reason})' if (reason := one_line(error)) else ''}"
        about = SystemFault(f"{line}: use fewer ranks on each node, or raise the limit")
    elif isinstance(error, BrokenPipeError):
        about = SystemFault("the output cannot be written (Broken pipe)")
    elif isinstance(error, OSError) and error.errno in MAY_PASS | REFUSED:
        line = f"{error.filename or 'a file'}: {error.strerror}: fix that and run the same command again"
        about = SystemFault(line, error.errno in MAY_PASS)
    if about:
        about.agreed = getattr(error, "agreed", False)
    return about


@contextlib.contextmanager
def system_faults(
    what: str, remedy: str = "fix that and run the same command again", given: bool = False
) -> Iterator[None]:
    """Context that turns an ``OSError`` or ``MemoryError`` into a ``SystemFault``.

    Args:
        what: such as "the checkpoint x cannot be read"; the reason and the ``remedy`` follow.
        given: the user gave the path, so an unsuitable one is a ``UsageError``.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or one_line(error) or type(error).__name__
        line = f"{what} ({reason}): {remedy}"
        if given and error.errno in UNSUITABLE:
            raise UsageError(line) from None
        raise SystemFault(line, error.errno in MAY_PASS) from None
    except MemoryError:
        raise SystemFault(f"{what} (out of memory): use fewer ranks on each node, or raise the limit") from None


@contextlib.contextmanager
def malformed(what: str, remedy: str = "", kind: type[UsageError] = UsageError, agreed: bool = False) -> Iterator[None]:
    """Context that raises ``kind`` for malformed data: ``what``, the error in brackets, ``remedy``.

    ``agreed``: every rank reads the same data, and so raises the same error.
    """
    try:
        yield
    except (UsageError, RunError, OSError, MemoryError):  # not of the data
        raise
    except Exception as error:  # malformed data can raise any type
        refused = kind(f"{what} ({described(error)}){remedy}")
        refused.agreed = agreed
        raise refused from None


@contextlib.contextmanager
def user_code(what: str, kind: type[UsageError] | type[RunError] = UsageError) -> Iterator[None]:
    """Context that turns any error of the user's code into one of ``kind``, ``what: error``, after the traceback.

    A ``UsageError`` passes, and so does an error of the system that may pass. A ``RunError`` names what failed itself,
    so it keeps its text.
    """
    try:
        yield
    except (UsageError, MemoryError):
        raise
    except RunError as error:
        raise kind(str(error)) from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno in MAY_PASS:
            raise
        traceback.print_exc()
        raise kind(f"{what}: {described(error)}") from None
