"""The script of Grid Engine, on a real one of a single node with two slots, set up for this test (Debian, as root).

Install it yourself, for this test only: apt-get install --no-install-recommends gridengine-master gridengine-exec
gridengine-client. That removes SLURM's PBS commands (slurm-wlm-torque), which have the same names; the next
``make test-batch`` brings them back and removes Grid Engine.
"""

import os
import platform
import shutil
import subprocess
from pathlib import Path

import jobs
import pytest
from hosts import wait_for
from submitted import ENVIRONMENT, SCRIPTS, SMALL, finished, log, starts

pytestmark = pytest.mark.batch

INSTALLED = Path("/var/lib/gridengine"), Path("/var/spool/gridengine")
PE = "pe_name mpi\nslots 99\nuser_lists NONE\nxuser_lists NONE\nstart_proc_args NONE\nstop_proc_args NONE\n"
PE += "allocation_rule $fill_up\ncontrol_slaves TRUE\njob_is_first_task FALSE\nurgency_slots min\n"
PE += "accounting_summary FALSE\nqsort_args NONE\n"
HOST = "load_scaling NONE\ncomplex_values NONE\nuser_lists NONE\nxuser_lists NONE\nprojects NONE\nxprojects NONE\n"
HOST += "usage_scaling NONE\nreport_variables NONE\n"
#: Settings that differ from those of a new installation.
GLOBAL = {"min_uid": "0", "min_gid": "0", "mailer": "/bin/true", "load_report_time": "00:00:02"}
QUEUE = {"qname": "all.q", "slots": "2", "pe_list": "mpi", "rerun": "TRUE", "shell": "/bin/bash", "seq_no": "0"}
QUEUE |= {"load_thresholds": "NONE", "shell_start_mode": "unix_behavior"}
SCHEDULER = {"schedule_interval": "0:0:2", "flush_submit_sec": "1", "flush_finish_sec": "1"}


class GridEngine:
    """A qmaster and an execd of a copy of Debian's installation. A context manager."""

    def __init__(self, folder):
        self.root, self.host = folder / "sge", platform.node()
        ports = {"SGE_QMASTER_PORT": "6544", "SGE_EXECD_PORT": "6545"}
        self.environment = {**os.environ, "SGE_ROOT": str(self.root), "SGE_CELL": "default", **ports}

    def __enter__(self):
        shutil.copytree(INSTALLED[0], self.root, symlinks=True)
        shutil.copytree(INSTALLED[1], self.root / "spool")
        common = self.root / "default" / "common"
        bootstrap = (common / "bootstrap").read_text().replace(str(INSTALLED[1]), str(self.root / "spool"))
        (common / "bootstrap").write_text(bootstrap.replace("sgeadmin", "none"))
        (common / "host_aliases").write_text(f"{self.host} localhost\n")
        (common / "act_qmaster").write_text(f"{self.host}\n")
        environment = {**self.environment, "SGE_ND": "1"}  # not a daemon: it ends with this process
        self._daemons = [subprocess.Popen(["sge_qmaster"], env=environment)]
        wait_for(lambda: self._try("qconf", "-sconf"), 30, "the qmaster to answer")
        self._change("-sconf", "-Mconf", "global", GLOBAL | {"execd_spool_dir": str(self.root / "spool" / "execd")})
        self.run("qconf", "-as", self.host)
        self._add("-Ae", f"hostname {self.host}\n{HOST}")
        self._add("-Ap", PE)
        self._change("-sq", "-Aq", "all.q", QUEUE | {"hostlist": self.host})
        self._change("-ssconf", "-Msconf", "scheduler", SCHEDULER)
        self._daemons.append(subprocess.Popen(["sge_execd"], env=environment))
        wait_for(lambda: "lx-amd64" in self.run("qstat", "-f"), 30, "the execd to report")
        return self

    def __exit__(self, *_):
        for daemon in reversed(self._daemons):
            daemon.terminate()
            daemon.wait(20)

    def _try(self, *words):
        return subprocess.run(words, env=self.environment, capture_output=True).returncode == 0

    def run(self, *words, **more):
        """Run a command and return its output."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=30, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _add(self, option, text, name="new"):
        path = self.root / name
        path.write_text(text)
        self.run("qconf", option, str(path))

    def _change(self, show, change, name, settings):
        lines = [line for line in self.run("qconf", show).splitlines() if line.strip() and not line.startswith("#")]
        text = "\n".join(
            f"{line.split()[0]} {settings[line.split()[0]]}" if line.split()[0] in settings else line for line in lines
        )
        self._add(change, text + "\n", name)


@pytest.fixture
def grid_engine(tmp_path):
    if os.geteuid() != 0 or not shutil.which("sge_qmaster"):
        pytest.skip("needs root and Grid Engine, which excludes SLURM's PBS commands: see the top of test_sge.py")
    with GridEngine(tmp_path) as cell:
        yield cell


def test_job_is_requeued_until_it_is_finished(grid_engine, tmp_path):
    """Two ranks in several starts, each ended by its walltime, give the bits of an uninterrupted run."""
    flags = [*SMALL, "--total-timesteps", "48000"]
    line = ["qsub", "-pe", "mpi", "2", "-l", "h_rt=00:05:00", str(SCRIPTS / "train.sge"), "--run-dir", "run", *flags]
    environment = {**grid_engine.environment, **ENVIRONMENT}
    submitted = subprocess.run(
        [*line, "--max-walltime", "7"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert submitted.returncode == 0, submitted.stderr
    wait_for(lambda: finished(tmp_path), 300, lambda: log(tmp_path, "pg_mpi.o1"))
    wait_for(lambda: not grid_engine.run("qstat"), 60, "the job to leave the queue")
    found = starts(tmp_path)
    assert len(found) >= 2, log(tmp_path, "pg_mpi.o1")
    assert all(start["ranks"] == 2 and start["job"]["JOB_ID"] == "1" for start in found)
    whole = tmp_path / "whole"
    jobs.run(jobs.command(2, "pg_mpi.train", "--run-dir", "run", *flags), whole)
    assert jobs.newest(whole)[1] == jobs.newest(tmp_path)[1] and jobs.deterministic(whole) == jobs.deterministic(
        tmp_path
    )
