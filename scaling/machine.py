"""What a result says about the machine. The standard library alone: other trainers' environments import it too."""

import os
import platform


def cpu_model():
    """The processor's name, as far as the system tells."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def cores():
    """How many hardware threads this process may use (Linux)."""
    return len(os.sched_getaffinity(0))
