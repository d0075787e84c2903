"""The watchdog ends a process that is not fed, and no other."""

import subprocess
import sys

import pytest

SPARED = ["Watchdog(0, 0, 1).feed(); time.sleep(1.5)", "Watchdog(0.2, 0, 1); time.sleep(1.5)"]
ENDED = "w = Watchdog(0.2, 0, 1); w.feed(); time.sleep(30)"


def run(code):
    """Run code with a watchdog in a process of its own."""
    whole = f"import time; from pg_mpi.mpi.watchdog import Watchdog; {code}; print('alive')"
    return subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("code", SPARED, ids=["disabled", "before the first update"])
def test_process_lives(code):
    assert run(code).stdout == "alive\n"


def test_process_without_progress_ends_with_its_stack():
    result = run(ENDED)
    assert result.returncode == 1 and not result.stdout
    assert "rank 0 of 1" in result.stderr and "saw no update end for 0.2 s" in result.stderr
    assert 'File "<string>", line 1' in result.stderr
