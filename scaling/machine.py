"""Processor name and usable cores. Standard library only: the peers' environments import this module too."""

import os
import platform


def cpu_model():
    """Return the processor's name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def cores():
    """Number of hardware threads that this process may use (Linux)."""
    return len(os.sched_getaffinity(0))
