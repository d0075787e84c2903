"""Simulate several hosts on this machine: network namespaces with their own host names on one bridge. Needs root.

The hosts share cores, memory and disk, except for one local folder each. The network between them is separate, and can
be slowed down and cut.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path

NETWORK = "10.213.77"
ROOT_ADDRESS = f"{NETWORK}.254"
BRIDGE = "pgmpi"
OWNER = Path("/run/pg_mpi.hosts")  # locked by the process that owns the hosts


def run_command(*words):
    """Run a command, assert that it succeeds, and return its output."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr.strip()}"
    return done.stdout


class Hosts:
    """Hosts n1, n2, ... A context manager: creates them on entry; on exit ends their processes and removes them.

    Only one process of a machine can own hosts at a time. If it is killed, the next one removes its hosts.

    Args:
        count: number of hosts.
        folder: folder for sshd's keys and logs.

    Attributes:
        names: ["n1", ...].
        local: path of a folder in memory that is separate on each host, as is /dev/shm.
        environment: environment variables with which mpirun reaches the hosts by ssh. Set by ``serve_ssh``.
        sshd: process ids of ``serve_ssh``, by host. MPI jobs over ssh see what is mounted there.
        stray: after the exit, the processes that had to be killed: [(pid, command line)].
    """

    def __init__(self, count, folder):
        self.folder, self.names, self.stray = Path(folder), [f"n{n + 1}" for n in range(count)], []
        self.local = self.folder / "local"
        self._daemons, self._first_daemons, self.sshd, self.environment = [], {}, {}, {}

    def __enter__(self):
        self._owner = OWNER.open("w")
        try:
            fcntl.flock(self._owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError("another process has its hosts on this machine: wait until it ends") from None
        self._remove()
        try:
            self._create()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _create(self):
        self.local.mkdir()
        run_command("ip", "link", "add", BRIDGE, "type", "bridge")
        run_command("ip", "addr", "add", f"{ROOT_ADDRESS}/24", "dev", BRIDGE)
        run_command("ip", "link", "set", BRIDGE, "up")
        for name in self.names:
            namespace = self._namespace(name)
            run_command("ip", "netns", "add", namespace)
            run_command("ip", "link", "add", namespace, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            run_command("ip", "link", "set", namespace, "master", BRIDGE, "up")
            for words in (f"addr add {self.address(name)}/24 dev eth0", "link set eth0 up", "link set lo up"):
                run_command("ip", "-n", namespace, *words.split())

    def address(self, name):
        """IP address of a host."""
        return f"{NETWORK}.{self.names.index(name) + 1}"

    def _namespace(self, name):
        """Name of a host's network namespace and of its link on the bridge."""
        return f"{BRIDGE}-{name}"

    def command(self, name, *words):
        """Return a command line that runs ``words`` on a host."""
        inside = ["nsenter", f"--net=/run/netns/{self._namespace(name)}", "unshare", "--uts", "--mount"]
        mount = f"mount -t tmpfs local {self.local} && mount -t tmpfs shm /dev/shm"
        return [*inside, "sh", "-c", f'hostname "$0" && {mount} && exec "$@"', name, *words]

    def daemon(self, name, *words, **environment):
        """Start a daemon on a host, or outside of all hosts if ``name`` is None. It ends with the hosts."""
        log = open(self.folder / f"{Path(words[0]).name}.{name or 'root'}.out", "ab")  # noqa: SIM115 used by the daemon
        line = self.command(name, *words) if name else words
        line = ["setpriv", "--pdeathsig", "KILL", *line]  # also ends if the test is killed
        daemon = subprocess.Popen(line, env={**os.environ, **environment}, stdout=log, stderr=log)
        self._daemons.append(daemon)
        self._first_daemons.setdefault(name, daemon)
        log.close()
        return daemon

    def output(self, name, *words):
        """Run a command with the local folder of a host's first daemon, and return its output."""
        return run_command("nsenter", f"--mount=/proc/{self._first_daemons[name].pid}/ns/mnt", *words)

    # -- the network ------------------------------------------------------------------------------------

    def cut(self, name):
        """Disconnect a host from all others."""
        run_command("ip", "link", "set", self._namespace(name), "down")

    def reconnect(self, name):
        """Undo ``cut``."""
        run_command("ip", "link", "set", self._namespace(name), "up")

    def shape(self, megabits=None):
        """Limit what each host sends to ``megabits`` Mbit/s; None removes the limit."""
        for name in self.names:
            burst = max(32, (megabits or 0) // 8)  # kB: one millisecond, or a few packets
            words = f"eth0 root tbf rate {megabits}mbit burst {burst}kb latency 100ms".split() if megabits else []
            with contextlib.suppress(AssertionError):  # no limit is set
                run_command("tc", "-n", self._namespace(name), "qdisc", "del", "dev", "eth0", "root")
            if words:
                run_command("tc", "-n", self._namespace(name), "qdisc", "add", "dev", *words)

    # -- ssh --------------------------------------------------------------------------------------------

    def serve_ssh(self):
        """Start sshd on each host, and set ``environment``."""
        key, config = self.folder / "key", self.folder / "ssh_config"
        run_command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
        server = self.folder / "sshd_config"
        server.write_text(
            f"HostKey {key}\nAuthorizedKeysFile {key}.pub\nStrictModes no\n"
            "PermitRootLogin yes\nUsePAM no\nPidFile none\n",
            encoding="utf-8",
        )
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd needs it for privilege separation
        known = "StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
        config.write_text(
            f"Host *\n  IdentityFile {key}\n  {known}"
            + "".join(f"Host {name}\n  HostName {self.address(name)}\n" for name in self.names),
            encoding="utf-8",
        )
        for name in self.names:
            self.sshd[name] = self.daemon(name, "/usr/sbin/sshd", "-D", "-e", "-f", str(server)).pid
        for name in self.names:
            wait_for(lambda: self._ssh_works(config, name), 20, f"sshd on {name}")  # noqa: B023 called in this iteration
        self.environment = {
            "TMPDIR": str(self.local),
            "PRTE_MCA_plm_ssh_args": f"-F {config}",
            "PRTE_MCA_hwloc_default_binding_policy": "none",
        }

    def _ssh_works(self, config, name):
        line = self.command(self.names[0], "ssh", "-F", str(config), name, "true")
        return subprocess.run(line, capture_output=True, timeout=20).returncode == 0

    # -- the exit ---------------------------------------------------------------------------------------

    def processes(self):
        """Processes on all hosts: {pid: command line}."""
        found = {}
        for namespace in self._namespaces():
            for pid in run_command("ip", "netns", "pids", namespace).split():
                with contextlib.suppress(OSError):
                    found[int(pid)] = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
        return found

    def _namespaces(self):
        """Names of all existing namespaces of hosts, including those of a killed process."""
        return [line.split()[0] for line in run_command("ip", "netns").splitlines() if line.startswith(BRIDGE)]

    def _remove(self):
        """Kill the processes of all hosts, remove the hosts, and return the processes."""
        running = self.processes()
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for namespace in self._namespaces():
            run_command("ip", "netns", "del", namespace)
        for link in run_command("ip", "-brief", "link").splitlines():
            name = link.split()[0].partition("@")[0]
            if name.startswith(BRIDGE):
                # the link may have been removed with its namespace
                subprocess.run(["ip", "link", "del", name], capture_output=True)
        return running

    def __exit__(self, *_):
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self._daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                self.stray.append((daemon.pid, " ".join(daemon.args)))
                daemon.kill()
                daemon.wait()
        with contextlib.suppress(AssertionError):
            wait_for(lambda: not self.processes(), 10, "the hosts to be empty")
        self.stray.extend(self._remove().items())
        self._owner.close()


def wait_for(condition, seconds, what):
    """Wait until ``condition()`` is true; fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(subprocess.SubprocessError):
            if condition():
                return
        time.sleep(0.2)
    raise AssertionError(f"hung: waited {seconds} s for {what if isinstance(what, str) else what()}")
