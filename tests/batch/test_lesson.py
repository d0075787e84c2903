"""The commands of the workshop's lesson on clusters, on a real SLURM."""

import re
import subprocess
import sys
from pathlib import Path

import jobs
import pytest
from hosts import wait_for
from submitted import ENVIRONMENT, finished, starts, wait_for_updates

PAGE = jobs.ROOT / "docs" / "workshop" / "7-cluster.md"


@pytest.mark.batch
@pytest.mark.quick
def test_commands_of_the_lesson(slurm, tmp_path):
    """In their order; the job is requeued once it has trained, and then finishes."""
    (tmp_path / "jobs").symlink_to(jobs.ROOT / "jobs")
    environment = {**slurm.environment, **ENVIRONMENT, "PYTHONPATH": str(jobs.ROOT)}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    job, output = "", []
    for line in "".join(re.findall(r"```slurm\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)).splitlines():
        line = line.replace("JOB", job)
        if line.startswith("scontrol"):
            wait_for_updates(tmp_path, 2, "runs/queued")
        if "pg_mpi.status" in line:
            wait_for(lambda: (tmp_path / "runs/queued/config.json").exists(), 60, "the run to start")
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        job = job or done.stdout.split()[-1]
        output.append(done.stdout)
    slurm.wait_for_state(job, "COMPLETED", 180)
    text = (tmp_path / f"pg_mpi-{job}.log").read_text()
    print(*output, text)
    assert finished(tmp_path, "runs/queued") and len(starts(tmp_path, "runs/queued")) == 2, text
    assert job in output[1] and "running" in output[2]
