"""A real SLURM of four nodes on this one machine: its daemons, its jobs, and an end that leaves nothing behind."""

import contextlib
import os
import platform
import signal
import subprocess
import time
from pathlib import Path

NODES = 4
CONF = """\
ClusterName=pg_mpi
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
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
SlurmdTimeout=10
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
SchedulerParameters=sched_interval=2,bf_interval=2
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=2 RealMemory=4000
PartitionName=debug Nodes=ALL Default=YES PriorityTier=1 GraceTime=20 MaxTime=UNLIMITED
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF
"""


class Slurm:
    """The cluster. A context manager: started on entry, gone on exit, by process id.

    Args:
        folder: a new folder for its configuration, state and logs.
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        self._daemons = []

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        folder = self.folder
        for name in ("state", *(f"{kind}.n{n + 1}" for n in range(NODES) for kind in ("spool", "tmp"))):
            (folder / name).mkdir(parents=True, exist_ok=True)
        host = platform.node().split(".")[0]
        first = 27_001
        conf = CONF.format(host=host, folder=folder, port=27_000, nodes=NODES, first=first, last=first + NODES - 1)
        (folder / "slurm.conf").write_text(conf, encoding="utf-8")
        self._munge()
        self._daemon("slurmctld", "-D", "-c")
        for node in range(1, NODES + 1):
            self._daemon("slurmd", "-D", "-N", f"n{node}")
        self.wait_for(lambda: self.ask("sinfo", "-h", "-o", "%T %D") == f"idle {NODES}", 60, "nodes to be idle")

    def _munge(self):
        """A munge of our own: a key, a socket and a process in the folder."""
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        files = {"socket": "munge.socket", "pid-file": "munge.pid", "log-file": "munge.log", "seed-file": "munge.seed"}
        options = [f"--{name}={self.folder / file}" for name, file in files.items()]
        self._daemon("munged", "--foreground", "--force", f"--key-file={key}", *options)
        self.wait_for((self.folder / "munge.socket").exists, 20, "munge's socket")

    def _daemon(self, name, *words):
        log = open(self.folder / f"{name}.out", "ab")  # noqa: SIM115 the daemon's
        daemon = subprocess.Popen([f"/usr/sbin/{name}", *words], env=self.environment, stdout=log, stderr=log)
        self._daemons.append(daemon)
        log.close()

    def __exit__(self, *_):
        with contextlib.suppress(subprocess.SubprocessError):
            self.ask("scancel", "--full", "--state=RUNNING", "--user=root", "--signal=KILL")
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self._daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in self.left_behind():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def left_behind(self):
        """Processes that belong to this cluster and its jobs, found by their environment: a list of pids."""
        mark, found = f"SLURM_CONF={self.folder / 'slurm.conf'}".encode(), []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if int(entry.name) != os.getpid() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def ask(self, *words):
        """What a SLURM command prints; raises if it fails."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=30)
        if done.returncode:
            raise subprocess.SubprocessError(f"{words}: {done.stderr.strip()}")
        return done.stdout.strip()

    def submit(self, cwd, *words, **environment):
        """``sbatch``: the new job's number."""
        line = ["sbatch", "--parsable", "--chdir", str(cwd), *map(str, words)]
        done = subprocess.run(
            line, cwd=cwd, env={**self.environment, **environment}, capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().split(";")[0]

    def job(self, number):
        """What ``scontrol`` knows of a job: a dict."""
        fields = (field.partition("=") for field in self.ask("scontrol", "-o", "show", "job", number).split())
        return {name: value for name, _, value in fields}

    def wait_for(self, condition, seconds, what):
        """Wait until ``condition()`` is true; fail after ``seconds``."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(subprocess.SubprocessError):
                if condition():
                    return
            time.sleep(0.2)
        raise AssertionError(f"waited {seconds} s for {what}")

    def until(self, number, state, seconds):
        """Wait until a job is in ``state``; a job that waits to be run again is let in at once."""

        def reached():
            job = self.job(number)
            if job["JobState"] == "PENDING" and job["Reason"] == "BeginTime":
                time.sleep(2)  # started within the second of its requeue, slurmd takes it for the killed one
                self.ask("scontrol", "update", f"JobId={number}", "StartTime=now")
            return job["JobState"] == state

        self.wait_for(reached, seconds, f"job {number} to be {state}: {self.job(number)}")
