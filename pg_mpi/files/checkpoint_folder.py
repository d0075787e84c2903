"""The checkpoints of a run: which there are, the newest usable one, and the removal of old ones.

A checkpoint is one file, ``step-N.npz``. That of a large run has the states of its envs in parts, in the folder
``step-N.parts`` beside it, which several ranks write at the same time. The file is written last: without it the parts
do not count.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pg_mpi.config.errors import CheckpointError, SystemFault, system_faults
from pg_mpi.files import checkpoint_file
from pg_mpi.files.atomic_file import exists, free_name, is_file, is_folder, make_folder, unless_missing
from pg_mpi.files.checkpoint_file import Arrays

NAME = re.compile(r"step-(\d{12,18})\.npz")
PARTS = re.compile(r"step-\d{12,18}\.parts")

Loaded = tuple[str, Arrays, dict[str, Any]]  # path, arrays, facts


def path_of(folder: str, env_steps: int) -> str:
    """The file name of the checkpoint after ``env_steps`` agent steps."""
    return os.path.join(folder, f"step-{env_steps:012d}.npz")


def parts_of(path: str) -> str:
    """The folder of a checkpoint's parts."""
    return path.removesuffix(".npz") + ".parts"


def part_of(path: str, first: int, last: int, ranks: int) -> str:
    """The part of a checkpoint with the envs of the ranks from ``first`` to ``last``, of ``ranks`` in all."""
    return os.path.join(parts_of(path), f"ranks-{first:06d}-{last:06d}-of-{ranks}.npz")


def listing(folder: str) -> list[str]:
    """The checkpoints in ``folder``, newest first; none if it is missing. Raises ``SystemFault``."""
    steps = {int(match[1]): name for name in _names(folder) if (match := NAME.fullmatch(name))}
    return [os.path.join(folder, steps[step]) for step in sorted(steps, reverse=True)]


def candidates(source: str) -> list[str]:
    """The checkpoints of a run folder, newest first; or ``source`` itself if it is a file. Raises ``SystemFault``."""
    return [source] if is_file(source) else listing(os.path.join(source, "checkpoints"))


def save(path: str, arrays: Arrays, facts: Mapping[str, Any], keep: int = 3, spared: str | None = None) -> None:
    """Write a checkpoint and remove all but the newest ``keep`` and ``spared``. A kill leaves older ones intact.

    Raises as ``checkpoint_file.save``.
    """
    make_folder(os.path.dirname(path))
    checkpoint_file.save(path, arrays, facts)
    _remove_old(os.path.dirname(path), keep, (path, spared))


def load_newest(source: str, warn: Callable[[str], object], damaged: Collection[str] = ()) -> Loaded | None:
    """Load the newest usable checkpoint of a run folder, or one file: (path, arrays, facts), or None.

    ``warn(line)`` is called for each one that is skipped because its file is damaged. Those in ``damaged`` are skipped
    too. Raises ``CheckpointError`` if there are checkpoints but none is usable, ``SystemFault`` if one cannot be read.
    """
    paths = candidates(source)
    for path in paths:
        if path in damaged:
            continue
        try:
            return path, *checkpoint_file.load(path)
        except CheckpointError as error:
            warn(str(error))
        except SystemFault:
            if exists(path) or not candidates(source):
                raise
            return load_newest(source, warn, damaged)  # a trainer has removed it since, after writing a newer one
    if paths:
        raise CheckpointError(f"no usable checkpoint in {source} ({len(paths)} tried)")
    return None


def parts_there(path: str) -> set[str]:
    """The files in the folder of a checkpoint's parts. Raises ``SystemFault``."""
    folder = parts_of(path)
    return {os.path.join(folder, name) for name in _names(folder)}


def make_parts_folder(path: str) -> None:
    """Make the folder for a checkpoint's parts, and remove parts that a killed trainer has left there."""
    if not exists(path):
        shutil.rmtree(parts_of(path), ignore_errors=True)  # it does not follow links
    make_folder(parts_of(path))


def set_aside(folder: str, good: str) -> None:
    """Rename the damaged checkpoints that are newer than ``good``, so that they are not loaded again."""
    with system_faults(f"the damaged checkpoints in {folder} cannot be renamed"):
        for path in listing(os.path.join(folder, "checkpoints")):
            if path == good:
                return
            aside = free_name(path + ".damaged")
            os.replace(path, aside)
            parts = parts_of(path)
            if is_folder(parts):
                parts_aside = parts + aside.removeprefix(path)
                shutil.rmtree(parts_aside, ignore_errors=True)
                os.replace(parts, parts_aside)


def _remove_old(folder: str, keep: int, spared: Collection[str | None]) -> None:
    """Remove all checkpoints but the newest ``keep`` and ``spared``, and parts whose file is not there."""
    for old in listing(folder)[keep:]:
        if old not in spared:
            with contextlib.suppress(OSError):  # such as a folder of that name
                os.remove(old)
    there = {parts_of(path) for path in listing(folder)}
    for name in filter(PARTS.fullmatch, _names(folder)):
        if os.path.join(folder, name) not in there:
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def _names(folder: str) -> list[str]:
    with system_faults(f"{folder} cannot be read"), unless_missing():
        return os.listdir(folder)
    return []
