"""Processes, namespaces and what the kernel counts about them; everything made here is removed at the end, also after
Ctrl-C."""

import json
import os
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TICKS = os.sysconf("SC_CLK_TCK")


class BenchError(Exception):
    """A measurement that could not be made; the message is for the person who runs it."""


def sh(*words, check=True, timeout=60):
    """Runs a command to its end and returns its stdout."""
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    if check and done.returncode != 0:
        raise BenchError(f"{' '.join(words)}: exit {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Process:
    """A program in a session of its own, so that its children are counted and ended with it."""

    def __init__(self, words, log=None, stdin=subprocess.DEVNULL, stdout=None):
        self.words = [str(word) for word in words]
        out = open(log, "ab") if log else subprocess.DEVNULL
        self.child = subprocess.Popen(
            self.words, stdin=stdin, stdout=stdout or out, stderr=out, start_new_session=True
        )
        self.log = log

    def pids(self):
        """Every live process of the session."""
        return [pid for pid, fields in processes() if fields[3] == str(self.child.pid) and fields[0] != "Z"]

    def cpu_seconds(self):
        """User and system time of the session so far, children that have ended included."""
        ticks = 0
        for _, fields in processes():
            if fields[3] == str(self.child.pid):
                ticks += sum(int(field) for field in fields[11:15])
        return ticks / TICKS

    def private_bytes(self):
        """Memory that only this session uses (Private_Clean + Private_Dirty of smaps_rollup)."""
        total = 0
        for pid in self.pids():
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith(("Private_Clean:", "Private_Dirty:")):
                    total += int(line.split()[1]) * 1024
        return total

    def descriptors(self):
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in self.pids())

    def stop(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self.pids():
                break
            try:
                os.killpg(self.child.pid, number)
            except ProcessLookupError:
                pass
            # nginx's and socat's children may have sessions' leader gone; killpg reaches the group all the same.
            deadline = time.monotonic() + 2
            while self.pids() and time.monotonic() < deadline:
                self.child.poll()
                time.sleep(0.02)
        self.child.poll()


def processes():
    """(pid, the fields of /proc/PID/stat after the name) of every process; index 3 is the session."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            yield int(entry), stat.rpartition(")")[2].split()


def machine_busy_seconds():
    """CPU time that the whole machine spent on anything, and of it on soft interrupts, where the kernel does much of
    the network's work on nobody's account."""
    user, nice, system, _, _, irq, softirq = [
        int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]
    ]
    return (user + nice + system + irq + softirq) / TICKS, softirq / TICKS


@contextmanager
def cubic_allowed():
    """A namespace may only default to a congestion control that the host allows to everybody."""
    path = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
    before = path.read_text()
    if "cubic" not in before.split():
        path.write_text(f"{before.strip()} cubic")
    try:
        yield
    finally:
        path.write_text(before)


class Net:
    """Hosts that are network namespaces; `enter` is what tells one kind from another."""

    def enter(self, part, *words):
        """The command line that runs `words` on the host `part`."""
        raise NotImplementedError

    def sysctl(self, part, key, value):
        self.run(part, "sysctl", "-qw", f"{key}={value}")

    def run(self, part, *words, **keywords):
        return sh(*self.enter(part, *words), **keywords)

    def json(self, part, *words, **keywords):
        return json.loads(self.run(part, *words, **keywords))

    def start(self, part, *words, **keywords):
        return Process(self.enter(part, *words), **keywords)

    def wait_for_port(self, part, port, process):
        """Returns when something in the namespace listens on `port`."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if self.run(part, "ss", "-Hltn", f"sport = :{port}").strip():
                return
            if process.child.poll() is not None and not process.pids():
                break
            time.sleep(0.05)
        tail = Path(process.log).read_text()[-500:] if process.log else ""
        raise BenchError(f"{' '.join(process.words)}: not listening on port {port}; {tail}")


class Namespaces(Net):
    """client --- relay --- server, joined by veth pairs. CUBIC in all of them, whatever the host's default is."""

    CLIENT, RELAY_NEAR, RELAY_FAR, SERVER = "10.81.1.1", "10.81.1.2", "10.81.2.1", "10.81.2.2"

    def __init__(self):
        self.names = {part: f"lhbench-{os.getpid()}-{part}" for part in ("client", "relay", "server")}

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_):
        self.down()

    def up(self):
        for name in self.names.values():
            sh("ip", "netns", "add", name)
            sh("ip", "-n", name, "link", "set", "lo", "up")
        self.join("client", self.CLIENT, "relay", self.RELAY_NEAR)
        self.join("relay", self.RELAY_FAR, "server", self.SERVER)
        sh("ip", "-n", self.names["client"], "route", "add", "10.81.2.0/24", "via", self.RELAY_NEAR)
        sh("ip", "-n", self.names["server"], "route", "add", "10.81.1.0/24", "via", self.RELAY_FAR)
        for part in self.names:
            self.sysctl(part, "net.ipv4.tcp_congestion_control", "cubic")
            # A new connection per request must not run out of ports before the relay runs out of speed.
            self.sysctl(part, "net.ipv4.ip_local_port_range", "1024 65535")
            self.sysctl(part, "net.ipv4.tcp_tw_reuse", "1")
            self.sysctl(part, "net.core.somaxconn", "4096")
            self.sysctl(part, "net.ipv4.tcp_max_syn_backlog", "4096")
        self.sysctl("relay", "net.ipv4.ip_forward", "1")

    def join(self, left, left_address, right, right_address):
        left, right = self.names[left], self.names[right]
        sh("ip", "link", "add", "lhb0", "netns", left, "type", "veth", "peer", "name", "lhb1", "netns", right)
        for name, link, address in ((left, "lhb0", left_address), (right, "lhb1", right_address)):
            sh("ip", "-n", name, "address", "add", f"{address}/24", "dev", link)
            sh("ip", "-n", name, "link", "set", link, "up")

    def enter(self, part, *words):
        return ["ip", "netns", "exec", self.names[part], *[str(word) for word in words]]

    def down(self):
        for name in self.names.values():
            sh("ip", "netns", "del", name, check=False)


class Wan(Net):
    """The lab's A --- near === far --- B, kept by the program bench-wan for as long as the block lasts."""

    NEAR, FAR, B = "10.10.10.20", "10.99.0.2", "10.20.20.10"

    def __init__(self, hosts, rtt_ms, rate, loss, log):
        words = [ROOT / "target/release/examples/bench-wan", hosts, rtt_ms, rate, loss]
        self.process = Process(words, log=log, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.log = log

    def __enter__(self):
        line = self.process.child.stdout.readline()
        if not line:
            self.__exit__()
            raise BenchError(f"{' '.join(self.process.words)}: {Path(self.log).read_text()[-500:]}")
        self.places = json.loads(line)
        for relay in ("near", "far"):
            self.sysctl(relay, "net.ipv4.tcp_congestion_control", "cubic")
        return self

    def __exit__(self, *_):
        self.process.child.stdin.close()
        self.process.stop()

    def enter(self, part, *words):
        return ["nsenter", f"--net={self.places[part]}", *[str(word) for word in words]]
