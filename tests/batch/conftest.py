"""One cluster for all tests of this folder. They need root, Debian's packages (install.sh) and a minute or two."""

import os
import shutil

import pytest
from cluster import Slurm
from hosts import wait_for


@pytest.fixture(autouse=True)
def no_job_outlives_its_test(slurm):
    yield
    if slurm.ask("squeue", "-h"):
        slurm.ask("scancel", "--user=root")
        wait_for(lambda: not slurm.ask("squeue", "-h"), 30, "this test's jobs to end")


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("starting a SLURM cluster needs root")
    if not shutil.which("slurmctld", path="/usr/sbin"):
        pytest.skip("SLURM is not installed: make test-batch does that")
    cluster = Slurm(tmp_path_factory.mktemp("slurm"))
    with cluster:
        yield cluster
    assert not cluster.hosts.stray, "left running, and killed"
