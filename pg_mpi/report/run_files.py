"""Read the files of a run folder other than the metrics: settings, starts, ranks, evaluation, video and DONE.

All are optional. Missing files are left out; damaged files are left out with a note.
"""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeGuard

LARGEST = 64 << 20  # bytes of a JSON file
VIDEOS = {".mp4": "video/mp4", ".gif": "image/gif"}


class Waits(NamedTuple):
    """Content of ``ranks.json``: seconds that ranks waited since a start began, up to an update.

    Attributes:
        seconds: of each rank, if ``by_rank``; else their quantiles, the least first.
        least: the rank that waited least.
    """

    start: float
    update: float
    seconds: list[float]
    by_rank: bool
    least: float


class RunFiles(NamedTuple):
    """The other files of a run folder.

    Attributes:
        settings: setting → value, any JSON.
        starts: oldest first.
        ended: why the run finished, or None.
        waits: at the last checkpoint, or None.
        evaluation: the last evaluation, with at least finite ``games``, ``mean`` and ``ci95``; or None.
        video: path of the evaluation's video, or None.
    """

    settings: dict[str, Any]
    starts: list[dict[str, Any]]
    ended: str | None
    waits: Waits | None
    evaluation: dict[str, Any] | None
    video: str | None

    @property
    def start(self) -> dict[str, Any]:
        """The last start, or an empty dict."""
        return self.starts[-1] if self.starts else {}


def read(folder: str, notes: list[str]) -> RunFiles:
    """Read the ``RunFiles`` of a run folder; append a line to ``notes`` for each unusable file."""
    names = ("config.json", "ranks.json", "evaluation.json")
    config, ranks, evaluation = (_object(folder, name, notes) or {} for name in names)
    done = _object(folder, "DONE", notes)
    if not config:
        notes.append("config.json is missing: settings and provenance are not shown")
    judged, waits = _evaluation(evaluation), _waits(ranks)
    if evaluation and not judged:
        notes.append("evaluation.json is of another version: evaluate again to show it")
    if ranks and not waits:
        notes.append("ranks.json is of another version: waiting by rank is not shown")
    return RunFiles(
        settings=as_dict(config.get("settings")),
        starts=[start for start in as_list(config.get("starts")) if isinstance(start, dict)],
        ended=None if done is None else str(done.get("reason", "finished")),
        waits=waits,
        evaluation=judged,
        video=_video(folder, judged, notes),
    )


def as_dict(value: object) -> dict[str, Any]:
    """``value`` if it is a dict, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """``value`` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def is_number(value: object) -> TypeGuard[float]:
    """True for a number, not a bool, with an absolute value below 1e15."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15


def _object(folder: str, name: str, notes: list[str]) -> dict[str, Any] | None:
    """Read the JSON object in a file; None if it is missing or unusable."""
    path = os.path.join(folder, name)
    try:
        if os.path.getsize(path) > LARGEST:
            raise ValueError("too large")
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        if not isinstance(content, dict) or _deep(content):
            raise ValueError("not one of our objects")
        return content
    except FileNotFoundError:
        return None
    except OSError as error:
        notes.append(f"{name} cannot be read ({error.strerror}) and is left out")
    except (ValueError, RecursionError):
        notes.append(f"{name} is damaged and is left out")
    return None


def _deep(value: object, left: int = 20) -> bool:
    """True if JSON is nested too deeply to be shown safely."""
    inner: Iterable[object] = value.values() if isinstance(value, dict) else as_list(value)
    return not left or any(_deep(each, left - 1) for each in inner)


def _evaluation(content: dict[str, Any]) -> dict[str, Any] | None:
    """Return ``content`` if it has all numbers that the page shows, else None."""
    ends = as_list(content.get("ci95"))
    numbers = [content.get("games"), content.get("mean"), *ends]
    return content if len(ends) == 2 and all(map(is_number, numbers)) else None


def _waits(content: dict[str, Any]) -> Waits | None:
    """Return the ``Waits``, or None."""
    by_rank = "phase_s" in content
    seconds = as_list(as_dict(content.get("phase_s" if by_rank else "quantiles_s")).get("wait"))
    slowest = as_dict(next(iter(as_list(content.get("slowest"))), None))
    numbers: list[Any] = [content.get("start"), content.get("update"), slowest.get("rank")]
    good = seconds and all(is_number(each) and each >= 0 for each in seconds) and all(map(is_number, numbers))
    start, update, least = numbers
    return Waits(start, update, [float(each) for each in seconds], by_rank, least) if good else None


def _video(folder: str, evaluation: dict[str, Any] | None, notes: list[str]) -> str | None:
    """Return the path of the evaluation's video, which must lie in the folder itself; else None."""
    name = (evaluation or {}).get("video")
    if not isinstance(name, str) or os.path.splitext(name)[1].lower() not in VIDEOS:
        return None
    path = os.path.join(folder, name)
    if os.path.basename(name) == name and os.path.isfile(path) and not os.path.islink(path):
        return path
    notes.append("the video of the last evaluation is gone: evaluate again with --video")
    return None


def embeddable(path: str, most: int) -> tuple[str, bytes] | None:
    """Return (media type, bytes) of a video below ``most`` bytes; None if it is larger or cannot be read."""
    with contextlib.suppress(OSError):
        if os.path.getsize(path) < most:
            return VIDEOS[os.path.splitext(path)[1].lower()], pathlib.Path(path).read_bytes()
    return None
