"""Launchers and batch systems: which environment variable holds what. Standard library only.

A launcher starts the processes of an MPI job and tells each its number. A batch system allocates nodes and starts one
script on the first. Names are from the manuals of each; which of them were run here is listed in docs/clusters.md.
A new batch system needs a row here and in docs/clusters.md, and its job scripts in jobs/.
"""

import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pg_mpi.config.errors import system_faults


class Launcher(NamedTuple):
    """Variables that a launcher sets for each process; None where it has none."""

    name: str
    size: str | None  # number of processes
    rank: str
    local_rank: str  # among those of this host


class BatchSystem(NamedTuple):
    """Variables that a batch system sets for a job's script; None where it has none."""

    name: str
    job: str
    array_task: str | None
    ranks: str | None  # number of ranks
    nodes: str | None  # a file of node names: one line for each rank, or NAME SLOTS


#: The most specific first: Open MPI's mpirun may run within a step of srun, flux or PALS.
LAUNCHERS = (
    Launcher("Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    Launcher("Hydra", "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID"),  # MPICH and Intel MPI
    Launcher("PALS", None, "PALS_RANKID", "PALS_LOCAL_RANKID"),  # Cray's mpiexec, which sets PMI_SIZE too
    Launcher("Cray PMI", "PMI_SIZE", "PMI_RANK", "PMI_LOCAL_RANK"),
    Launcher("jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK"),
    Launcher("flux run", "FLUX_JOB_SIZE", "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID"),
    Launcher("PMIx", None, "PMIX_RANK", "PMIX_LOCAL_RANK"),
    Launcher("srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID"),
)
BATCH_SYSTEMS = (
    BatchSystem("SLURM", "SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_NTASKS", None),
    BatchSystem("PBS", "PBS_JOBID", "PBS_ARRAY_INDEX", None, "PBS_NODEFILE"),  # PBS Pro, OpenPBS, Torque
    BatchSystem("LSF", "LSB_JOBID", "LSB_JOBINDEX", "LSB_DJOB_NUMPROC", "LSB_DJOB_HOSTFILE"),
    BatchSystem("Flux", "FLUX_JOB_ID", None, None, None),
    BatchSystem("Grid Engine", "JOB_ID", "SGE_TASK_ID", "NSLOTS", "PE_HOSTFILE"),
)


def batch_system(environ: Mapping[str, str] = os.environ) -> BatchSystem | None:
    """The batch system that this process is in a job of, or None."""
    signs = ((system, (system.job, system.nodes or "")) for system in BATCH_SYSTEMS)
    return next((system for system, names in signs if any(map(environ.get, names))), None)


def job_facts(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of batch systems for the job and its array task, with their values.

    There may be those of two: SLURM has commands of PBS.
    """
    names = [name for system in BATCH_SYSTEMS for name in (system.job, system.array_task) if name]
    return {name: environ[name] for name in names if environ.get(name, "undefined") != "undefined"}


def allocated_nodes(environ: Mapping[str, str] = os.environ) -> dict[str, int]:
    """The job's nodes and the number of ranks for each, in the batch system's order.

    Empty outside of a job, and where the batch system has no file of them. Raises ``UsageError``, ``SystemFault``.
    """
    system = batch_system(environ)
    variable = system.nodes if system else None
    path = environ.get(variable) if variable else None
    if not path:
        return {}
    nodes: Counter[str] = Counter()
    with system_faults(f"{variable}={path} cannot be read", "unset it outside of a job", given=True):
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    for line in lines:
        name, *more = line.split() or [""]
        if name:
            nodes[name] += int(more[0]) if more and re.fullmatch(r"\d+", more[0]) else 1
    return dict(nodes)


def allocated_ranks(environ: Mapping[str, str] = os.environ) -> int | None:
    """Number of ranks that the batch system allocated, over all nodes; None outside of a job or if unknown.

    Raises as ``allocated_nodes``.
    """
    system = batch_system(environ)
    if system and system.ranks and environ.get(system.ranks, "").isdigit():
        return int(environ[system.ranks])
    return sum(allocated_nodes(environ).values()) or None
