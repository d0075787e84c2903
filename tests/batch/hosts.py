"""Several hosts on this one machine: a network namespace each, with its own name, on one bridge. Needs root.

What they are not: machines of their own. They share the cores, the memory and the disk, but for a folder that each has
for itself; what is true of them is the network between them, which can be shaped and cut.
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
OWNER = Path("/run/pg_mpi.hosts")  # locked by the process that the hosts belong to, for as long as it lives


def say(*words):
    """Run a command that must succeed; what it prints."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr.strip()}"
    return done.stdout


class Hosts:
    """Hosts n1, n2, ... A context manager: made on entry, gone with everything that runs on them on exit.

    One process of a machine can have some at a time. Where it was killed, the next one removes what it left.

    Args:
        count: how many.
        folder: for sshd's keys and logs.

    Attributes:
        names: ["n1", ...].
        local: a folder that is another one, in memory, for the daemons of each host and what they start; so is
            /dev/shm, where killed ranks leave theirs.
        stray: after the end, the processes that had to be killed: [(pid, command line)].
    """

    def __init__(self, count, folder):
        self.folder, self.names, self.stray = Path(folder), [f"n{n + 1}" for n in range(count)], []
        self.local = self.folder / "local"
        self._daemons, self._first = [], {}

    def __enter__(self):
        self._owner = OWNER.open("w")
        try:
            fcntl.flock(self._owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError("another process has its hosts on this machine: wait until it ends") from None
        self._clear()
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self):
        self.local.mkdir()
        say("ip", "link", "add", BRIDGE, "type", "bridge")
        say("ip", "addr", "add", f"{ROOT_ADDRESS}/24", "dev", BRIDGE)
        say("ip", "link", "set", BRIDGE, "up")
        for name in self.names:
            space = self._space(name)
            say("ip", "netns", "add", space)
            say("ip", "link", "add", space, "type", "veth", "peer", "name", "eth0", "netns", space)
            say("ip", "link", "set", space, "master", BRIDGE, "up")
            for words in (f"addr add {self.address(name)}/24 dev eth0", "link set eth0 up", "link set lo up"):
                say("ip", "-n", space, *words.split())

    def address(self, name):
        """A host's address."""
        return f"{NETWORK}.{self.names.index(name) + 1}"

    def _space(self, name):
        """The name of a host's namespace, and of its cable's outer end."""
        return f"{BRIDGE}-{name}"

    def words(self, name, *words):
        """A command line that runs ``words`` on a host."""
        inside = ["nsenter", f"--net=/run/netns/{self._space(name)}", "unshare", "--uts", "--mount"]
        mount = f"mount -t tmpfs local {self.local} && mount -t tmpfs shm /dev/shm"
        return [*inside, "sh", "-c", f'hostname "$0" && {mount} && exec "$@"', name, *words]

    def daemon(self, name, *words, **environment):
        """Start a daemon on a host, or beside them for ``name`` None; it ends with them."""
        log = open(self.folder / f"{Path(words[0]).name}.{name or 'root'}.out", "ab")  # noqa: SIM115 the daemon's
        line = self.words(name, *words) if name else words
        line = ["setpriv", "--pdeathsig", "KILL", *line]  # nor does it outlive a test that is killed
        daemon = subprocess.Popen(line, env={**os.environ, **environment}, stdout=log, stderr=log)
        self._daemons.append(daemon)
        self._first.setdefault(name, daemon)
        log.close()

    def look(self, name, *words):
        """Run a command where a host's first daemon runs, with its own folder; what it prints."""
        return say("nsenter", f"--mount=/proc/{self._first[name].pid}/ns/mnt", *words)

    # -- the network ------------------------------------------------------------------------------------

    def cut(self, name):
        """Cut a host off from all others, as if its cable were pulled."""
        say("ip", "link", "set", self._space(name), "down")

    def shrink(self, name):
        """Put the cable back."""
        say("ip", "link", "set", self._space(name), "up")

    def shape(self, megabits=None):
        """Let each host send at most so many Mbit/s; None: as fast as it goes."""
        for name in self.names:
            burst = max(32, (megabits or 0) // 8)  # kB that pass at once: a millisecond's, or a few packets
            words = f"eth0 root tbf rate {megabits}mbit burst {burst}kb latency 100ms".split() if megabits else []
            with contextlib.suppress(AssertionError):  # there is none
                say("tc", "-n", self._space(name), "qdisc", "del", "dev", "eth0", "root")
            if words:
                say("tc", "-n", self._space(name), "qdisc", "add", "dev", *words)

    # -- ssh --------------------------------------------------------------------------------------------

    def serve_ssh(self):
        """An sshd on each host that lets this user in; the ssh configuration that reaches them by name: a path."""
        key, config = self.folder / "key", self.folder / "ssh_config"
        say("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
        server = self.folder / "sshd_config"
        server.write_text(
            f"HostKey {key}\nAuthorizedKeysFile {key}.pub\nStrictModes no\n"
            "PermitRootLogin yes\nUsePAM no\nPidFile none\n",
            encoding="utf-8",
        )
        Path("/run/sshd").mkdir(exist_ok=True)  # where sshd empties its privileges, or it does not start
        known = "StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
        config.write_text(
            f"Host *\n  IdentityFile {key}\n  {known}"
            + "".join(f"Host {name}\n  HostName {self.address(name)}\n" for name in self.names),
            encoding="utf-8",
        )
        for name in self.names:
            self.daemon(name, "/usr/sbin/sshd", "-D", "-e", "-f", str(server))
        for name in self.names:
            wait_for(lambda: self._answers(config, name), 20, f"sshd on {name}")  # noqa: B023 called at once
        return config

    def _answers(self, config, name):
        line = self.words(self.names[0], "ssh", "-F", str(config), name, "true")
        return subprocess.run(line, capture_output=True, timeout=20).returncode == 0

    # -- the end ----------------------------------------------------------------------------------------

    def pids(self):
        """Processes that run on any host: {pid: command line}."""
        found = {}
        for space in self._spaces():
            for pid in say("ip", "netns", "pids", space).split():
                with contextlib.suppress(OSError):
                    found[int(pid)] = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
        return found

    def _spaces(self):
        """The namespaces that are there, whoever made them."""
        return [line.split()[0] for line in say("ip", "netns").splitlines() if line.startswith(BRIDGE)]

    def _clear(self):
        """End what runs on the hosts and remove them; what ran."""
        running = self.pids()
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for space in self._spaces():
            say("ip", "netns", "del", space)
        for link in say("ip", "-brief", "link").splitlines():
            name = link.split()[0].partition("@")[0]
            if name.startswith(BRIDGE):
                subprocess.run(["ip", "link", "del", name], capture_output=True)  # gone with its namespace, perhaps
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
            wait_for(lambda: not self.pids(), 10, "the hosts to be empty")
        self.stray.extend(self._clear().items())
        self._owner.close()


def wait_for(condition, seconds, what):
    """Wait until ``condition()`` is true; fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(subprocess.SubprocessError):
            if condition():
                return
        time.sleep(0.2)
    raise AssertionError(f"waited {seconds} s for {what if isinstance(what, str) else what()}")
