"""Several hosts over TCP and ssh, without a batch system: one world, equal weights, whatever the network is like."""

import json
import subprocess
import sys
from pathlib import Path

import jobs
import pytest
from submitted import SMALL

pytestmark = pytest.mark.batch


@pytest.fixture(scope="module")
def hosts(slurm):
    """The cluster's four hosts with an sshd each; mpirun reaches them by ``PRTE_MCA_plm_ssh_args``."""
    config = slurm.hosts.serve_ssh()
    slurm.hosts.told = {
        "TMPDIR": str(slurm.hosts.local),
        "PRTE_MCA_plm_ssh_args": f"-F {config}",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
    }
    yield slurm.hosts
    slurm.hosts.shape()


def start(hosts, cwd, count, module, *words):
    """Run a module on one rank of each of ``count`` hosts as in a PBS job: from the first, by PBS_NODEFILE."""
    nodes = cwd / "nodes"
    nodes.write_text("".join(f"{name}\n" for name in hosts.names[:count]), encoding="utf-8")
    launched = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", str(count), "--", module, *map(str, words)]
    return jobs.run(hosts.words("n1", *launched), cwd, PBS_NODEFILE=str(nodes), **hosts.told)


def train(hosts, cwd, count, megabits):
    """A small run over the network as it is then; its metrics."""
    cwd.mkdir()
    hosts.shape(megabits)
    flags = ["--run-dir", "run", *SMALL, "--sync-check-every", 1, "--total-timesteps", 1500 * count]
    done = start(hosts, cwd, count, "pg_mpi.train", *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    names = ", ".join(hosts.names[:count])
    assert f"{count} ranks on {count} hosts ({names})" in done.stdout
    assert (cwd / "run" / "DONE").exists()
    return jobs.metrics(cwd)


@pytest.mark.parametrize("count", [2, 4])
def test_the_trainer_over_hosts(hosts, tmp_path, count):
    """One world that checks after each update that all hold the same weights; a slow link changes only the times."""
    fast, slow = train(hosts, tmp_path / "fast", count, None), train(hosts, tmp_path / "slow", count, 100)
    for line in (*fast, *slow):
        assert line["ranks"] == count
        waited, took = line["phase_s"]["wait"] + line["phase_s"]["allreduce"], sum(line["phase_s"].values())
        assert 0 < waited < took
        assert line["phase_max_s"]["wait"] >= line["phase_s"]["wait"] >= 0
    assert jobs.newest(tmp_path / "fast")[1] == jobs.newest(tmp_path / "slow")[1]
    assert jobs.deterministic(tmp_path / "fast") == jobs.deterministic(tmp_path / "slow")


def test_the_doctor_sees_a_slow_link(hosts, tmp_path):
    """4 MB in both directions over 100 Mbit/s need a third of a second, by the laws of arithmetic."""
    found = {}
    for megabits in (None, 100):
        hosts.shape(megabits)
        done = start(hosts, tmp_path, 2, "pg_mpi.doctor", "--strict", "--json", "--seconds", "0.3")
        result = json.loads(done.stdout.splitlines()[-1])
        assert [rank["host"] for rank in result["ranks"]] == ["n1", "n2"], done.stderr
        found[megabits] = {finding["name"] for finding in result["findings"]}, max(result["allreduce_s"].values())
    assert found[100][1] > 0.3 > found[None][1]
    # where something else takes the cores it says that, and nothing of a network that it could not judge
    assert found[None][0] <= {"busy"} and found[100][0] in ({"network"}, {"busy"}), found


def test_a_host_that_ssh_does_not_reach_ends_it(hosts, tmp_path):
    """A wrong name in the node file: a message and a code, no hanging."""
    (tmp_path / "nodes").write_text("n1\nn9\n", encoding="utf-8")
    line = [sys.executable, "-m", "pg_mpi.mpi.launch", "-n", "2", "--", "pg_mpi.train", "--run-dir", "run"]
    told = {"PBS_NODEFILE": str(tmp_path / "nodes"), **hosts.told}
    done = jobs.run(hosts.words("n1", *line), tmp_path, **told)
    assert done.returncode != 0 and "n9" in done.stderr
    assert not (tmp_path / "run" / "DONE").exists()


def test_the_hosts_are_what_they_are_said_to_be(hosts):
    """Each has its own name and address, and reaches the others."""
    for name in hosts.names:
        done = subprocess.run(hosts.words(name, "hostname"), capture_output=True, text=True)
        assert done.stdout.strip() == name


def test_a_sweep_over_hosts(hosts, tmp_path):
    """``--hosts FILE``: a rank on each of two hosts, measured, and its run kept."""
    hosts.shape()
    (tmp_path / "nodes").write_text("n1 slots=1\nn2 slots=1\n", encoding="utf-8")
    line = [
        sys.executable,
        "-m",
        "scaling.sweep",
        "--hosts",
        "nodes",
        "--ranks",
        "2",
        "--keep",
        "--out",
        "out",
        "--json",
    ]
    time = ["--seconds", "5", "--warmup", "2", "--max-frames", "400"]
    done = jobs.run(hosts.words("n1", *line, *time, *SMALL), tmp_path, **hosts.told)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout.splitlines()[-1])["rows"]
    assert row["ranks"] == 2 and row["wait_fraction"] > 0
    start = json.loads((tmp_path / "out/run-000002-0/config.json").read_text(encoding="utf-8"))["starts"][0]
    assert [place["host"] for place in start["places"]] == ["n1", "n2"]


KILLED = """\
import os, signal, socket, subprocess, sys, tempfile, time
sys.path.append({folder!r})
from hosts import ROOT_ADDRESS, Hosts

owner = os.fork()
if not owner:
    with Hosts(2, tempfile.mkdtemp()) as hosts:
        hosts.daemon("n1", "sleep", "1000")
        hosts.daemon(None, "sleep", "1001")
        subprocess.Popen(hosts.words("n2", "setsid", "sleep", "1002"))
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(owner, 0)
with Hosts(2, tempfile.mkdtemp()) as hosts:
    left = subprocess.run(["pgrep", "-afx", "sleep 100[012]"], capture_output=True, text=True).stdout
    assert not left, left
    with socket.create_server((ROOT_ADDRESS, 0)) as server:
        dial = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"
        words = hosts.words("n2", sys.executable, "-c", dial, ROOT_ADDRESS, str(server.getsockname()[1]))
        assert subprocess.run(words).returncode == 0
    try:
        with Hosts(2, tempfile.mkdtemp()):
            pass
    except RuntimeError as error:
        assert "another process has its hosts" in str(error)
    else:
        raise AssertionError("two at a time")
assert not subprocess.run(["ip", "netns"], capture_output=True).stdout
print("ENDED")
"""


@pytest.mark.quick
def test_what_a_killed_owner_left_is_removed_by_the_next(tmp_path):
    """In a network and a /run of its own, as this cluster's hosts are there at the time."""
    script = KILLED.format(folder=str(Path(__file__).parent))
    own = ["unshare", "--net", "--mount", "sh", "-c", 'mount -t tmpfs run /run && exec "$@"', "sh"]
    done = subprocess.run(
        [*own, sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "ENDED\n"
