"""Which threads and cores this rank really has: read from what was loaded, not from what was asked."""

import os
import platform

import threadpoolctl

from pg_mpi import THREAD_VARIABLES


def blas_threads():
    """Threads of the largest BLAS or OpenMP pool that is loaded in this process (1 if there is none)."""
    return max([pool["num_threads"] for pool in threadpoolctl.threadpool_info()], default=1)


def pools():
    """The BLAS and OpenMP pools that are loaded in this process: list of dicts (api, version, threads, file)."""
    return [
        {
            "api": pool["internal_api"],
            "version": pool["version"],
            "threads": pool["num_threads"],
            "file": pool["filepath"],
        }
        for pool in threadpoolctl.threadpool_info()
    ]


def pin_threads():
    """Hold pools that ignored the environment to the threads it asks for; returns ``blas_threads()``.

    The variables were set when ``pg_mpi`` was imported; a library that was loaded before that, or that reads
    another variable, is limited here.
    """
    asked = (os.environ.get(name, "").split(",")[0].strip() for name in THREAD_VARIABLES)  # OpenMP allows lists
    wanted = max((int(value) for value in asked if value.isdigit()), default=1)
    if blas_threads() > wanted:
        threadpoolctl.threadpool_limits(wanted)
    return blas_threads()


def cores():
    """The cores this process may use, sorted; None where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def spell(numbers):
    """Numbers as ranges: [0, 1, 2, 5] → ``0-2,5``."""
    if not numbers:
        return "unknown"
    runs = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def numbers(spelled):
    """``0-2,5`` → [0, 1, 2, 5]; nothing for ``unknown``."""
    if spelled == "unknown":
        return []
    borders = ([int(n) for n in part.split("-")] for part in spelled.split(","))
    return [n for border in borders for n in range(border[0], border[-1] + 1)]


def describe():
    """This rank's host, cores and threads, for the start banner and config.json."""
    blas = sorted({pool["internal_api"] for pool in threadpoolctl.threadpool_info()})
    return {
        "host": platform.node(),
        "cores": spell(cores()),
        "threads": blas_threads(),
        "blas": "+".join(blas),
    }
