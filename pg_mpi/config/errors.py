"""Errors that a user can cause. Each message is one line with the remedy."""


class UsageError(Exception):
    """The command, the settings or the run folder are wrong: one line, exit code 2, nothing written.

    ``agreed`` is True if every rank raises it together, so that all ranks can exit in order.
    """

    agreed = False


class RunError(Exception):
    """The job cannot continue: one line with the reason, exit code 1. Saved files stay.

    ``agreed``: as of ``UsageError``.
    """

    agreed = False


class CheckpointError(UsageError):
    """A file is not a usable checkpoint: unreadable, truncated, damaged or foreign."""


def one_line(value: object) -> str:
    """The text of an error or of any value, without line breaks."""
    return " ".join(str(value).split())
