"""Parsers of command-line text to checked values. Each raises ``ValueError`` with what it accepts."""

import argparse
import difflib
import importlib
import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

from pg_mpi import __version__
from pg_mpi.config.errors import UsageError, user_code

Parsed = TypeVar("Parsed")


def nearest(word: object, known: Iterable[str]) -> str:
    """`` (did you mean X?)`` for the closest of ``known``, or an empty string."""
    match = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.5)
    return f" (did you mean {match[0]}?)" if match else ""


def _number(text: Any) -> float:
    """Return ``text`` as a float, or NaN if it is not a number, or is a boolean of JSON or TOML."""
    try:
        return math.nan if isinstance(text, bool) else float(text)
    except (ValueError, TypeError, OverflowError):
        return math.nan


def integer(low: int = 1, high: float = math.inf) -> Callable[[Any], int]:
    """A parser of whole numbers of at least ``low`` and at most ``high``; it accepts ``2e9``."""
    wanted = f"a whole number of at least {low}" + (f" and at most {high:,}" if high < math.inf else "")

    def parse(text: Any) -> int:
        number = _number(text)
        if not number.is_integer() or not low <= number <= high:
            raise ValueError(wanted)
        return int(text) if re.fullmatch(r"[+-]?\d+", str(text)) else int(number)

    return parse


def spans(text: object) -> list[int]:
    """Parse whole numbers and ranges separated by commas, such as ``0-4,17``, without repetition."""
    parts = [re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip()) for part in str(text).split(",")]
    ranges = [range(int(part[1]), int(part[2] or part[1]) + 1) if part else range(0) for part in parts]
    numbers = [number for each in ranges for number in each]
    if not all(ranges) or len(set(numbers)) < len(numbers):
        raise ValueError("whole numbers or ranges such as 0-4,17, each number once")
    return numbers


def real(low: float = -math.inf, high: float = math.inf, open_low: bool = False) -> Callable[[Any], float]:
    """A parser of finite numbers in [low, high], or (low, high] with ``open_low``."""
    bounds = []
    if low > -math.inf:
        bounds.append(f"{'above' if open_low else 'at least'} {low:g}")
    if high < math.inf:
        bounds.append(f"at most {high:g}")
    wanted = " ".join(["a finite number", " and ".join(bounds)]).strip()

    def parse(text: Any) -> float:
        number = _number(text)
        if not math.isfinite(number) or number > high or number < low or (open_low and number == low):
            raise ValueError(wanted)
        return number

    return parse


def duration(text: Any) -> float:
    """Parse ``[DAYS-]HH:MM:SS``, ``MM:SS``, ``90s``, ``10m``, ``2h`` or a number of seconds: seconds."""
    wanted = "a duration above zero such as 00:10:00 or 10m (or 1-12:00:00, or seconds)"
    match = re.fullmatch(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+(?:\.\d+)?)", str(text).strip())
    if unit := re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", str(text).strip()):
        total = float(unit[1]) * {"s": 1, "m": 60, "h": 3600}[unit[2]]
    elif match:
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    else:
        total = _number(text)
    if not math.isfinite(total) or total <= 0:
        raise ValueError(wanted)
    return total


def updates_or_time(text: Any) -> int | float:
    """Parse a number of updates: an int; or a ``duration`` with a unit or a colon: seconds, a float."""
    timed = isinstance(text, float) or re.search("[:smh]", str(text))  # a preset file may hold seconds as a float
    try:
        return duration(text) if timed else integer()(text)
    except ValueError:
        raise ValueError("a number of updates, or a time such as 10m or 00:10:00") from None


def boolean(text: object) -> bool:
    """Parse ``true`` or ``false``."""
    names = {"true": True, "false": False}
    if str(text).lower() not in names:
        raise ValueError("true or false")
    return names[str(text).lower()]


def checked(parse: Callable[[Any], Parsed], value: Any, source: str) -> Parsed:
    """Parse ``value``; ``source`` names it in the ``UsageError``."""
    try:
        return parse(value)
    except ValueError as wanted:
        raise UsageError(f"{source} must be {wanted}, not {value!r}") from None


def choice(*names: str) -> Callable[[Any], str]:
    """A parser that accepts only ``names``."""

    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"one of {', '.join(names)}{nearest(text, names)}")
        return text

    return parse


def text(value: object) -> str:
    """Parse any non-empty text."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a non-empty text")
    return value


def imported(path: str, flag: str) -> Any:
    """Import ``package.module:name``; None if the module has no such name.

    Raises ``UsageError``, after the traceback, for a module that does not import.
    """
    module, _, name = path.partition(":")
    sys.path.insert(0, "")  # the working directory, as for a script
    try:
        with user_code(f"{flag} {path}: {module} does not import"):
            found = getattr(importlib.import_module(module), name, None)
    finally:
        sys.path.remove("")
    return found


def check_extra(package: str, extra: str, what: str) -> None:
    """Raise ``UsageError`` if the package that ``what`` needs cannot be imported; ``extra`` of pg_mpi has it."""
    try:
        importlib.import_module(package)
    except ImportError:
        raise UsageError(f"{what} needs an extra package: pip install 'pg_mpi[{extra}]'") from None


def check_output(path: str, flag: str, suffixes: Collection[str]) -> None:
    """Raise ``UsageError`` unless a file with one of the ``suffixes`` can be written to the ``path`` of a flag."""
    folder = os.path.dirname(path) or "."
    if os.path.splitext(path)[1].lower() not in suffixes:
        raise UsageError(f"{flag} must end with {' or '.join(suffixes)}, not {path!r}")
    if os.path.isdir(path):
        raise UsageError(f"{flag} {path} is a folder: give another name")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{flag} {path}: the folder {folder} does not exist or cannot be written")


class Parser(argparse.ArgumentParser):
    """``argparse`` with one-line errors that name the nearest flag, ``--version``, and no abbreviated flags."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self._negative_number_matcher = re.compile(r"-\.?\d")  # argparse knows no -2e2
        self.add_argument("--version", action="version", version=f"pg_mpi {__version__}")

    def add_argument(  # type: ignore[override]  # of argparse's types only functions
        self, *names: str, type: Callable[[str], Any] | None = None, **options: Any
    ) -> argparse.Action:
        """Add an argument. Its help ends with its default, if that is a text.

        ``type``: a parser of this module, for the text and for a default that is a text. A value that it
        refuses is a ``UsageError`` that names the flag, or the metavar of a positional argument.
        """
        if type is not None:
            source = names[-1] if names[0].startswith("-") else options.get("metavar", names[0])
            options["type"] = lambda value: checked(type, value, source)
        if isinstance(default := options.get("default"), str) and default != argparse.SUPPRESS:  # as -h has
            options["help"] = options.get("help", "") + " (default: %(default)s)"
        return super().add_argument(*names, **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse ``argv``; an unknown flag is a ``UsageError`` that names the nearest one."""
        values, unknown = self.parse_known_args(argv)
        if unknown:
            flag = unknown[0].split("=", 1)[0]
            known = [option for action in self._actions for option in action.option_strings]
            raise UsageError(f"unknown argument {flag}{nearest(flag, known)}: see --help")
        return values
