"""One cluster for all tests of this folder. They need root, Debian's packages (install.sh) and a minute or two."""

import os
import shutil

import pytest
from cluster import Slurm


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
