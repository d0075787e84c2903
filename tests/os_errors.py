"""Errors of the operating system, injected."""

import os


def failing(number):
    """A function that raises the ``OSError`` of an error number."""

    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    return fail
