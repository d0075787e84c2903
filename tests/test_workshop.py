"""The lessons of the workshop: every command runs, and what they show is true."""

import difflib
import os
import re
import sys
from pathlib import Path

import pytest
from jobs import ROOT, run

LESSONS = sorted((ROOT / "docs" / "workshop").glob("[1-9]-*.md"))
# what the third lesson has from the second:
SERIAL = "     9 s     1,109 steps, score -20.0, mean of the last 100 -20.00\n"
SHORT = {f"--games {number}": "--games 1" for number in ("120", "10", "5", "3")} | {
    "100000": "256 --envs-per-rank 1",
    "60000": "600 --max-frames 800",
    "pg_mpi.doctor": "pg_mpi.doctor --seconds 0.2",
}


def blocks(page, language):
    """The contents of a page's fenced blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def commands(page):
    """The commands of a lesson."""
    return "".join(blocks(page, "sh")).splitlines()


def follow(lines, folder, limit=90):
    """Run the commands of a lesson in turn; returns their output."""
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "runs").mkdir()
    (folder / "runs" / "serial.log").write_text(SERIAL)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    output = ""
    for line in lines:
        words = ["bash", "-o", "pipefail", "-c", line]
        output += run(words, folder, limit, code=0, PATH=path, **root).stdout
    return output


def shortened(lines):
    """The commands with few games, without those that a later one repeats with an addition.

    Without a profiler, which is not installed, and a model that needs a longer run.
    """
    lines = [line for line in lines if "py-spy" not in line and "scaling.model.predict" not in line]
    for long, short in SHORT.items():
        lines = [line.replace(long, short) for line in lines]
    return [line for i, line in enumerate(lines) if not any(line in later for later in lines[i + 1 :])]


@pytest.mark.parametrize("page", LESSONS, ids=lambda page: page.stem)
def test_commands_run_in_short(page, tmp_path):
    output = follow(shortened(commands(page)), tmp_path)
    if page.stem == "1-bandits":
        assert blocks(page, "text")[0] in output, "its numbers are the same everywhere"


@pytest.mark.workshop
@pytest.mark.parametrize("page", LESSONS, ids=lambda page: page.stem)
def test_commands_run(page, tmp_path):
    follow(commands(page), tmp_path, limit=600)


def test_lesson_shows_the_difference_of_the_examples():
    serial, parallel = ((ROOT / "examples" / f"pong_{name}.py").read_text().splitlines() for name in ("serial", "mpi"))
    lines = [line for line in difflib.unified_diff(serial, parallel, n=0) if not line.startswith(("---", "+++", "@@"))]
    assert blocks(ROOT / "docs" / "workshop" / "3-mpi.md", "diff") == ["\n".join([*lines, ""])]
