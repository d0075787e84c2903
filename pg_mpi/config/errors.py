"""The errors that a user can cause and mend. Each message is one line that says what to do."""


class UsageError(Exception):
    """The command, the settings or the run folder are wrong: one line, exit code 2, nothing written.

    ``agreed`` is True once it is sure that every rank raises it together, so that all may leave in order.
    """

    agreed = False


class RunError(Exception):
    """The job cannot go on, for a reason that its one line says: exit code 1; what was saved stays.

    ``agreed``: as of ``UsageError``.
    """

    agreed = False


class CheckpointError(UsageError):
    """A file is not a usable checkpoint: unreadable, truncated, damaged or foreign."""


def one_line(value: object) -> str:
    """What an error, or any value, says: a text without line breaks."""
    return " ".join(str(value).split())
