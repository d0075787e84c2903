"""``metrics.jsonl`` with one object per update, progress lines, and TensorBoard files.

``report`` in ``run/trainer.py`` collects the keys; docs/reference/metrics.md lists them.
"""

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from pg_mpi.config.errors import UsageError, counted, system_faults
from pg_mpi.config.settings import TrainConfig
from pg_mpi.files.atomic_file import keep_copy, make_folder, replacing, unless_missing

FLUSH_EVERY = 10.0  # seconds between flushes of TensorBoard files
TAIL = 1 << 16  # bytes: more than the longest line


class MetricsLog:
    """Appends to ``metrics.jsonl``. Rank 0 only.

    Attributes:
        seconds_before: training seconds of the folder's earlier starts, lost updates included.
        last: the update of the last line, 0 if there is none.
    """

    def __init__(self, path: str, update: int) -> None:
        """Open ``path`` and keep its lines up to ``update``. Later ones belong to updates that were not saved.

        Damaged lines are left out, with a warning and a copy of the file. Raises ``OSError``.
        """
        self.seconds_before, self.last, damaged = 0.0, 0, 0
        with replacing(path) as new:
            for line in _lines(path):  # one by one: a long run has many
                if line is None:
                    damaged += 1
                    continue
                self.seconds_before = line.get("wall_s", 0.0)
                if line["update"] <= update:
                    self.last = line["update"]
                    new.write(json.dumps(line).encode() + b"\n")
            if damaged:
                keep_copy(path, f"{counted(damaged, 'damaged line')} left out")
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115 held until the end

    def write(self, metrics: dict[str, Any]) -> None:
        """Append one update's metrics."""
        try:
            self._file.write(json.dumps({name: _finite(value) for name, value in metrics.items()}) + "\n")
            self._file.flush()
        except OSError:
            with contextlib.suppress(OSError):
                self._file.close()  # else Python writes the rest again at the exit, and prints why it cannot
            raise
        self.last = metrics["update"]

    def sync(self) -> None:
        """Make the lines durable, before a checkpoint that follows them."""
        os.fsync(self._file.fileno())


def _finite(value: Any) -> Any:
    """``value``, or None for a number that is not finite, which JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_lines(path: str) -> tuple[list[dict[str, Any]], int]:
    """The lines of a metrics file, and the number of damaged ones. A last line that a kill truncated is neither.

    Raises ``UsageError`` without any line, and ``SystemFault``.
    """
    with system_faults(f"{path} cannot be read", "make it readable, or copy it"):
        lines = list(_lines(path))
    if not any(lines):
        damaged = f", but {len(lines)} damaged" if lines else ""
        raise UsageError(f"no line of metrics in {path}{damaged}: train until the first update and give the run folder")
    return [line for line in lines if line is not None], lines.count(None)


def _lines(path: str) -> Iterator[dict[str, Any] | None]:
    """Each line of a metrics file; None for a damaged one."""
    with unless_missing(), open(path, "rb") as file:
        for text in file:
            try:
                line = {name: _finite(value) for name, value in json.loads(text.decode()).items()}
                seconds = line.get("wall_s", 0.0)
                if type(line["update"]) is not int or type(seconds) not in (int, float) or not math.isfinite(seconds):
                    raise ValueError("no line of metrics")
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
                line = None
            if line is not None or text.endswith(b"\n"):
                yield line


def last_line(path: str) -> dict[str, Any]:
    """Return the last complete line of a metrics file, unchecked, or an empty dict. Reads only the end of the file."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
        for text in reversed(file.read().splitlines()):
            with contextlib.suppress(ValueError, RecursionError):
                line = json.loads(text)
                if isinstance(line, dict):
                    return line
    return {}


class Progress:
    """Progress lines: a live line on a terminal, a line per ``log_interval`` elsewhere."""

    def __init__(
        self, config: TrainConfig, spent: Callable[[], float], live: bool, stream: TextIO | None = None
    ) -> None:
        """``spent()``: seconds of ``--max-walltime`` that are over."""
        self._stream, self._live = stream or sys.stdout, live
        self._every = 0.5 if self._live else config.log_interval
        self._config, self._spent, self._next = config, spent, 0.0
        self._since: tuple[float, int] | None = None  # (wall seconds, env steps) of the last line
        self._shown: int | None = None  # its update
        self._drawn = False  # whether it is one to draw over

    def show(self, metrics: dict[str, Any], force: bool = False) -> None:
        """Print a line if one is due."""
        now = time.monotonic()
        if (now < self._next and not force) or metrics["update"] == self._shown:
            return
        self._shown = metrics["update"]
        self._next = now + self._every
        before, self._since = self._since, (metrics["wall_s"], metrics["env_steps"])
        speed = metrics["sps"]
        if before and metrics["wall_s"] > before[0]:
            speed = (metrics["env_steps"] - before[1]) / (metrics["wall_s"] - before[0])
        mean = metrics["return_mean"]
        parts = [
            f"update {metrics['update']:,}",
            f"{metrics['env_steps']:,} steps",
            f"{speed:,.0f} steps/s",
            f"{metrics['games']:,} games",
            "no game finished yet" if mean is None else f"mean of last 100 games {mean:+.2f}",
            f"{clock(metrics['wall_s'])} trained",
        ]
        config = self._config
        parts += time_left(config.max_walltime, self._spent(), config.total_timesteps, metrics["env_steps"], speed)
        self._print("  ".join(parts))

    def _print(self, line: str) -> None:
        # A whole line, over the one before: mpirun keeps the beginning of a line until its end comes.
        over = "\x1b[A\x1b[K" if self._drawn else ""
        self.say(f"{over}\x1b[?7l{line}\x1b[?7h" if self._live else line)  # cut off at the edge, not wrapped
        self._drawn = self._live

    def say(self, line: str) -> None:
        """Print a permanent line."""
        self._drawn = False
        with system_faults("the output cannot be written"):
            print(line, file=self._stream, flush=True)


def time_left(most: float | None, spent: float, total: int | None, env_steps: int, speed: float) -> list[str]:
    """The time until the nearest budget in words: of ``most`` seconds, or of ``total`` steps. Empty without one."""
    left = [most - spent] if most else []
    if total and speed:
        left.append((total - env_steps) / speed)
    return [f"{clock(max(0.0, min(left)))} left at most"] if left else []


def clock(seconds: float) -> str:
    """Seconds as H:MM:SS."""
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"


class TensorBoard:
    """TensorBoard files of the metrics, with CleanRL's tags."""

    TAGS = {
        "charts/episodic_return": "return_last",
        "charts/return_mean": "return_mean",
        "charts/SPS": "sps",
        "charts/learning_rate": "learning_rate",
        "losses/policy_loss": "policy_loss",
        "losses/value_loss": "value_loss",
        "losses/entropy": "entropy",
        "losses/approx_kl": "approx_kl",
        "losses/clipfrac": "clip_fraction",
    }

    def __init__(self, folder: str, env_steps: int) -> None:
        """Open ``folder``. Events after ``env_steps`` belong to updates that were not saved, and are purged.

        There is no thread: ``SummaryWriter`` blocks without end after an error of the disk.
        """
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2

        make_folder(folder)
        self._proto, self._flushed = event_pb2, time.monotonic()
        # The library names a file by its second and overwrites the one of a start in the same second.
        self._writer = EventsWriter(os.path.join(folder, "events"), f".{len(os.listdir(folder))}")
        if env_steps:
            self._add(step=env_steps + 1, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START))

    def _add(self, **content: Any) -> None:
        self._writer.write_event(self._proto.Event(wall_time=time.time(), **content))

    def write(self, metrics: dict[str, Any]) -> None:
        """Add one update. Raises ``OSError``."""
        from tensorboardX.summary import scalar

        for tag, name in self.TAGS.items():
            if metrics[name] is not None:
                self._add(step=metrics["env_steps"], summary=scalar(tag, metrics[name]))
        if time.monotonic() > self._flushed + FLUSH_EVERY:
            self._flushed = time.monotonic()
            self._writer.flush()

    def close(self) -> None:
        """Flush and close the files. Raises ``OSError``."""
        self._writer.close()
