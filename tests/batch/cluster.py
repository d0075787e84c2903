"""Start a real SLURM cluster of four nodes on this machine, and submit and query its jobs."""

import contextlib
import os
import platform
import subprocess
import time
from pathlib import Path

from hosts import ROOT_ADDRESS, Hosts, wait_for

NODES = 4
END_STATES = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}
NODE_OPTIONS = "Port=27001 CPUs=2 RealMemory=4000"
CONF = """\
ClusterName=pg_mpi
SlurmctldHost={host}({address})
SlurmctldPort=27000
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
PlugStackConfig={folder}/plugstack.conf
TmpFS={folder}/tmp.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobs.txt
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
KillWait=5
SlurmdTimeout=6
MessageTimeout=5
TCPTimeout=2
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
SchedulerParameters=sched_interval=2,bf_interval=2
PartitionName=debug Nodes=ALL Default=YES PriorityTier=1 GraceTime=20 MaxTime=UNLIMITED
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF
"""


@contextlib.contextmanager
def pmix_link():
    """Context with a link libpmix.so, which SLURM's plugin opens and Debian has only in a development package."""
    library = next(Path("/usr/lib").glob("*/pmix2/lib/libpmix.so.2"))
    link = library.with_name("libpmix.so")
    missing = not link.exists()
    if missing:
        link.symlink_to(library.name)
    try:
        yield
    finally:
        if missing:
            link.unlink()


class Slurm:
    """A cluster with a node on each of four hosts. A context manager: starts it on entry and ends it on exit.

    Args:
        folder: a new folder for configuration, state and logs.

    Attributes:
        hosts: the ``Hosts`` of its nodes.
        environment: environment variables of SLURM's commands.
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        # All nodes share the same two cores. Each mpirun daemon would bind its first rank to the first core.
        unbound = {"PRTE_MCA_hwloc_default_binding_policy": "none"}
        self.hosts = Hosts(NODES, folder)
        folders = {"SLURM_CONF": str(self.folder / "slurm.conf"), "TMPDIR": str(self.hosts.local)}
        self.environment = {**os.environ, **unbound, **folders}

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(pmix_link())
            stack.enter_context(self.hosts)
            self._start()
            self._stack = stack.pop_all()
        return self

    def _start(self):
        folder, nodes = self.folder, self.hosts.names
        for name in ("state", *(f"{kind}.{node}" for node in nodes for kind in ("spool", "tmp"))):
            (folder / name).mkdir(parents=True, exist_ok=True)
        lines = [f"NodeName={n} NodeHostname={n} NodeAddr={self.hosts.address(n)} {NODE_OPTIONS}" for n in nodes]
        host = platform.node().split(".")[0]
        conf = CONF.format(host=host, address=ROOT_ADDRESS, folder=folder) + "\n".join(lines) + "\n"
        (folder / "slurm.conf").write_text(conf, encoding="utf-8")
        (folder / "plugstack.conf").write_text("optional spank_pbs.so\n", encoding="utf-8")
        self._start_munge()
        environment = {"SLURM_CONF": self.environment["SLURM_CONF"]}
        self.hosts.daemon(None, "/usr/sbin/slurmctld", "-D", "-c", **environment)
        for node in nodes:
            self.hosts.daemon(node, "/usr/sbin/slurmd", "-D", "-N", node, **environment)
        wait_for(lambda: self.run("sinfo", "-h", "-o", "%T %D") == f"idle {NODES}", 60, "nodes to be idle")

    def _start_munge(self):
        """Start a separate munge daemon, with its key and socket in the folder."""
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        files = {"socket": "munge.socket", "pid-file": "munge.pid", "log-file": "munge.log", "seed-file": "munge.seed"}
        options = [f"--{name}={self.folder / file}" for name, file in files.items()]
        self.hosts.daemon(None, "/usr/sbin/munged", "--foreground", "--force", f"--key-file={key}", *options)
        wait_for((self.folder / "munge.socket").exists, 20, "munge's socket")

    def __exit__(self, *_):
        try:
            self.run("scancel", "--user=root")
            wait_for(lambda: not self.run("squeue", "-h"), 30, "the jobs to end")
        finally:
            self._stack.close()

    def run(self, *words):
        """Run a SLURM command and return its output. Raises ``SubprocessError`` if it fails."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=30)
        if done.returncode:
            raise subprocess.SubprocessError(f"{words}: {done.stderr.strip()}")
        return done.stdout.strip()

    def submit(self, cwd, *words, **environment):
        """Submit a job with ``sbatch`` and return its number."""
        line = ["sbatch", "--parsable", "--chdir", str(cwd), *map(str, words)]
        done = subprocess.run(
            line, cwd=cwd, env={**self.environment, **environment}, capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().split(";")[0]

    def job(self, number):
        """Return the fields that ``scontrol`` shows for a job as a dict."""
        fields = (field.partition("=") for field in self.run("scontrol", "-o", "show", "job", number).split())
        return {name: value for name, _, value in fields}

    def wait_for_state(self, number, state, seconds):
        """Wait until a job is in ``state``. Fails if it ends in another one. A requeued job starts without delay."""

        def reached():
            job = self.job(number)
            if job["JobState"] == "PENDING" and job["Reason"] == "BeginTime":
                time.sleep(2)  # slurmd confuses a job that starts within a second of its requeue with the killed one
                self.run("scontrol", "update", f"JobId={number}", "StartTime=now")
            assert job["JobState"] not in END_STATES - {state}, self._status(number)
            return job["JobState"] == state

        wait_for(reached, seconds, lambda: f"job {number} to be {state}: {self._status(number)}")

    def _status(self, number):
        job = self.job(number)
        log = Path(job["StdOut"])
        text = log.read_text(encoding="utf-8", errors="replace")[-3000:] if log.exists() else ""
        return f"{job['JobState']} {job['Reason']}\n{text}"
