"""One cluster for all tests of this folder. They need root and Debian's packages (install.sh)."""

import os
import shutil

import pytest
from cluster import Slurm
from hosts import wait_for


@pytest.fixture(autouse=True)
def cancel_remaining_jobs(slurm):
    yield
    if slurm.run("squeue", "-h"):
        slurm.run("scancel", "--user=root")
        wait_for(lambda: not slurm.run("squeue", "-h"), 30, "the jobs of this test to end")


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("starting a SLURM cluster needs root")
    if not shutil.which("slurmctld", path="/usr/sbin"):
        pytest.skip("SLURM is not installed: make test-batch installs it")
    cluster = Slurm(tmp_path_factory.mktemp("slurm"))
    with cluster:
        yield cluster
    assert not cluster.hosts.stray, "processes had to be killed"
