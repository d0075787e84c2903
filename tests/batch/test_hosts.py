"""Jobs on several hosts over TCP and ssh, without a batch system."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jobs
import pytest
from submitted import SMALL

from pg_mpi.files import checkpoint_folder

sys.path.append(str(Path(__file__).parents[1] / "chaos"))
from faulty_fs import Mounted, usable  # noqa: E402

pytestmark = pytest.mark.batch


@pytest.fixture(scope="module")
def hosts(slurm):
    """Return the cluster's four hosts with sshd. mpirun reaches them by ``PRTE_MCA_plm_ssh_args``."""
    slurm.hosts.serve_ssh()
    yield slurm.hosts
    slurm.hosts.shape()


def run_on_hosts(hosts, cwd, count, module, *words, slots=1, code=0):
    """Run a module on ``slots`` ranks of each of ``count`` hosts, started on the first with PBS_NODEFILE as by PBS."""
    nodes = cwd / "nodes"
    nodes.write_text("".join(f"{name}\n" * slots for name in hosts.names[:count]), encoding="utf-8")
    line = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", str(count * slots), "--", module, *map(str, words)]
    return jobs.run(hosts.command("n1", *line), cwd, code=code, PBS_NODEFILE=str(nodes), **hosts.environment)


def train(hosts, cwd, count, megabits):
    """Train a small run with links of ``megabits`` Mbit/s and return its metrics."""
    cwd.mkdir()
    hosts.shape(megabits)
    flags = ["--run-dir", "run", *SMALL, "--sync-check-every", 1, "--total-timesteps", 1500 * count]
    done = run_on_hosts(hosts, cwd, count, "pg_mpi.train", *flags)
    names = ", ".join(hosts.names[:count])
    assert f"{count} ranks on {count} hosts ({names})" in done.stdout
    assert (cwd / "run" / "DONE").exists()
    return jobs.metrics(cwd)


@pytest.mark.parametrize("count", [2, 4])
def test_training_does_not_depend_on_the_speed_of_links(hosts, tmp_path, count):
    """A slow link changes only the times. Equality of the weights of all ranks is checked after each update."""
    fast, slow = train(hosts, tmp_path / "fast", count, None), train(hosts, tmp_path / "slow", count, 100)
    for line in (*fast, *slow):
        assert line["ranks"] == count
        waiting, total = line["phase_s"]["wait"] + line["phase_s"]["allreduce"], sum(line["phase_s"].values())
        assert 0 < waiting < total
        assert line["phase_max_s"]["wait"] >= line["phase_s"]["wait"] >= 0
    assert jobs.newest(tmp_path / "fast")[1] == jobs.newest(tmp_path / "slow")[1]
    assert jobs.deterministic(tmp_path / "fast") == jobs.deterministic(tmp_path / "slow")


@pytest.mark.quick
def test_several_ranks_on_each_of_two_hosts(hosts, tmp_path):
    """Open MPI reduces in two levels: it calls our operation on empty parts too."""
    flags = ["--run-dir", "run", *SMALL, "--sync-check-every", 1, "--total-timesteps", 3000]
    done = run_on_hosts(hosts, tmp_path, 2, "pg_mpi.train", *flags, slots=2)
    assert "4 ranks on 2 hosts (n1, n2)" in done.stdout and (tmp_path / "run" / "DONE").exists()


@pytest.mark.quick
def test_each_host_writes_and_reads_its_part(hosts, tmp_path):
    """Two hosts write two parts, one host resumes from them, and two from its one file."""
    for count, slots, steps, parts in ((2, 2, 2000, 2), (1, 4, 4000, 0), (2, 2, 6000, 2)):
        flags = ["--run-dir", "run", *SMALL, "--sync", "steps", "--num-steps", 256, "--total-timesteps", steps]
        done = run_on_hosts(hosts, tmp_path, count, "pg_mpi.train", *flags, slots=slots)
        assert "resumed from" in done.stdout or steps == 2000
        assert len(checkpoint_folder.parts_there(jobs.newest(tmp_path)[0])) == parts


def test_rank_0_writes_for_hosts_that_do_not_see_its_folder(hosts, tmp_path):
    flags = ["--run-dir", hosts.local / "run", *SMALL, "--total-timesteps", 2000]
    done = run_on_hosts(hosts, tmp_path, 2, "pg_mpi.train", *flags)
    assert "finished" in done.stdout, done.stdout + done.stderr
    line = f"not all hosts see {hosts.local}/run: rank 0 writes the checkpoints for all"
    assert done.stderr.count(line) == 1, done.stderr


#: The launcher, with less patience.
LAUNCHER = "import sys; from pg_mpi.mpi.launch import launcher as l; l.GONE, l.CHECK_EVERY = 2, 0.5; sys.exit(l.main())"


def test_elastic_job_outlives_the_ranks_of_the_launchers_host(hosts, tmp_path):
    (tmp_path / "nodes").write_text("n1\nn2\n", encoding="utf-8")
    folder = str(tmp_path / "run")
    flags = ["--elastic", "--run-dir", folder, *SMALL, "--sync", "steps", "--num-steps", "64", "--minibatch-size", "64"]
    line = [sys.executable, "-c", LAUNCHER, "-n", "2", "--", "pg_mpi.train", *flags]
    environment = {"PBS_NODEFILE": str(tmp_path / "nodes"), **hosts.environment}
    job = jobs.start(hosts.command("n1", *map(str, line)), tmp_path, **environment)
    try:
        jobs.wait_for_updates(job, tmp_path, 2)
        (rank,) = [
            int(entry.name)
            for entry in Path("/proc").glob("[0-9]*")
            if folder.encode() in read(entry / "cmdline") and b"OMPI_COMM_WORLD_RANK=0\0" in read(entry / "environ")
        ]
        os.kill(rank, signal.SIGKILL)
        time.sleep(6)
        before = len(jobs.metrics(tmp_path))
        jobs.wait_for_updates(job, tmp_path, before + 5)
        assert jobs.metrics(tmp_path)[-1]["ranks"] == 1
        job.send_signal(signal.SIGTERM)
        stopped = jobs.finish(job, 60)
        assert stopped.returncode == 75, stopped.stderr
    finally:
        jobs.end(job)


def read(path):
    """The bytes of a file of /proc; none if the process has ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
def test_run_folder_on_a_file_system_that_hosts_share(hosts, tmp_path, locks):
    """By FUSE, a stand-in for NFS. The second trainer is refused, or without locks ends the first."""
    assert usable(), "no FUSE: make chaos installs it"
    with Mounted(tmp_path) as mounted:
        mounted.set(locks=locks)
        flags = ["--env-id", "CartPole-v1", "--num-steps", "64", "--run-dir", str(mounted.folder / "run")]
        line = [sys.executable, "-m", "pg_mpi.train", *flags]
        first = jobs.start(hosts.command("n1", *line), tmp_path, **hosts.environment)
        jobs.wait_for_updates(first, mounted.folder, 60)
        second = hosts.command("n2", *line, "--max-walltime", "1")
        if locks:
            refused = jobs.run(second, tmp_path, code=75, **hosts.environment)
            assert "in use by n1 process" in jobs.one_line(refused)
            jobs.end(first)
            jobs.finish(first)
        again = jobs.run(second, tmp_path, **hosts.environment)
        assert again.returncode == 75 and "resumed from" in again.stdout, again.stderr
        if not locks:
            assert "taken over while in use" in jobs.finish(first).stderr


def test_hosts_that_see_each_others_files_late(hosts, tmp_path):
    """Each host has its own FUSE mount, which remembers names and sizes for three seconds, as NFS does."""
    assert usable(), "no FUSE: make chaos installs it"
    flags = ["--run-dir", "run", *SMALL, "--reproducible", "--checkpoint-every", "1", "--total-timesteps"]
    inside = ["nsenter", f"--mount=/proc/{hosts.sshd['n2']}/ns/mnt"]
    with Mounted(tmp_path, delay=3) as mounted, Mounted(tmp_path, delay=3, inside=inside):
        for count, slots, steps in ((2, 2, 2000), (1, 4, 3000), (2, 2, 4000)):
            done = run_on_hosts(hosts, mounted.folder, count, "pg_mpi.train", *flags, steps, slots=slots)
            assert "resumed from" in done.stdout or steps == 2000
        for steps in (2000, 3000, 4000):
            jobs.train(4, tmp_path / "whole", *flags[2:], steps)
        jobs.assert_equal_states(jobs.newest(mounted.folder)[0], jobs.newest(tmp_path / "whole")[0])


def test_doctor_reports_a_slow_link(hosts, tmp_path):
    """An Allreduce of 4 MB over links of 100 Mbit/s takes at least a third of a second."""
    found = {}
    for megabits in (None, 100):
        hosts.shape(megabits)
        flags = ["--strict", "--json", "--seconds", "0.3"]
        done = run_on_hosts(hosts, tmp_path, 2, "pg_mpi.doctor", *flags, code=None)
        result = jobs.printed(done)
        assert [rank["host"] for rank in result["ranks"]] == ["n1", "n2"], done.stderr
        found[megabits] = {finding["name"] for finding in result["findings"]}, max(result["allreduce_s"].values())
    assert found[100][1] > 0.3 > found[None][1]
    # a rank per host leaves cores idle; on a busy machine the doctor reports `busy` and does not judge the network
    assert found[None][0] <= {"busy", "idle"} and found[100][0] - {"idle"} in ({"network"}, {"busy"}), found


def test_unreachable_host_ends_the_job(hosts, tmp_path):
    """An unknown name in the node file gives a message and an exit code."""
    (tmp_path / "nodes").write_text("n1\nn9\n", encoding="utf-8")
    line = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", "2", "--", "pg_mpi.train", "--run-dir", "run"]
    environment = {"PBS_NODEFILE": str(tmp_path / "nodes"), **hosts.environment}
    done = jobs.run(hosts.command("n1", *line), tmp_path, **environment)
    assert done.returncode != 0 and "n9" in done.stderr
    assert not (tmp_path / "run" / "DONE").exists()


def test_hosts_have_their_own_names(hosts):
    for name in hosts.names:
        done = subprocess.run(hosts.command(name, "hostname"), capture_output=True, text=True)
        assert done.stdout.strip() == name


def test_sweep_on_several_hosts(hosts, tmp_path):
    """With ``--hosts`` and ``--keep`` one rank runs on each of two hosts, and the run folder is kept."""
    hosts.shape()
    (tmp_path / "nodes").write_text("n1 slots=1\nn2 slots=1\n", encoding="utf-8")
    line = [sys.executable, "-m", "scaling.sweep", "--hosts", "nodes", "--ranks", "2", "--keep"]
    flags = ["--seconds", "5", "--warmup", "2", "--max-frames", "400", "--out", "out", "--json"]
    done = jobs.run(hosts.command("n1", *line, *flags, *SMALL), tmp_path, code=0, **hosts.environment)
    (row,) = jobs.printed(done)["rows"]
    assert row["ranks"] == 2 and row["wait_fraction"] > 0
    start = json.loads((tmp_path / "out/run-000002-0/config.json").read_text(encoding="utf-8"))["starts"][0]
    assert [row["host"] for row in start["places"]["by_host"]] == ["n1", "n2"]


#: A process with hosts is killed, then another one creates hosts.
KILLED = """\
import os, signal, socket, subprocess, sys, tempfile, time
sys.path.append({folder!r})
from hosts import ROOT_ADDRESS, Hosts

owner = os.fork()
if not owner:
    with Hosts(2, tempfile.mkdtemp()) as hosts:
        hosts.daemon("n1", "sleep", "1000")
        hosts.daemon(None, "sleep", "1001")
        subprocess.Popen(hosts.command("n2", "setsid", "sleep", "1002"))
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(owner, 0)
with Hosts(2, tempfile.mkdtemp()) as hosts:
    remaining = subprocess.run(["pgrep", "-afx", "sleep 100[012]"], capture_output=True, text=True).stdout
    assert not remaining, remaining
    with socket.create_server((ROOT_ADDRESS, 0)) as server:
        connect = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"
        line = hosts.command("n2", sys.executable, "-c", connect, ROOT_ADDRESS, str(server.getsockname()[1]))
        assert subprocess.run(line).returncode == 0
    try:
        with Hosts(2, tempfile.mkdtemp()):
            pass
    except RuntimeError as error:
        assert "another process has its hosts" in str(error)
    else:
        raise AssertionError("two processes own hosts at a time")
assert not subprocess.run(["ip", "netns"], capture_output=True).stdout
print("ENDED")
"""


@pytest.mark.quick
def test_hosts_of_a_killed_process_are_removed_by_the_next(tmp_path):
    """The script has its own network namespace and /run, because the cluster owns hosts at the same time."""
    script = KILLED.format(folder=str(Path(__file__).parent))
    unshare = ["unshare", "--net", "--mount", "sh", "-c", 'mount -t tmpfs run /run && exec "$@"', "sh"]
    done = subprocess.run(
        [*unshare, sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "ENDED\n"
