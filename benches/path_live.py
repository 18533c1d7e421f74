"""Worlds of the lab for live flows: `benches/path --live` sends through relays in them, and reads what `status --json` says meanwhile."""

import collections
import json
import subprocess
import tempfile
import time

LINE = {"rtt": "63ms", "rate": "200Mbit/s", "queue": "2MB"}
FAST = {"rtt": "63ms", "rate": "1Gbit/s"}
POLICED = {**FAST, "out": {"policer": "100Mbit/s burst 625kB"}}
HOLE = {**LINE, "mtu": "1400 black-hole"}
VPN = {"rtt": "34ms", "rate": "200Mbit/s", "encap": "esp-gcm", "fragment": "1350", "reorder": "0.05% by 40us", "reassembly": "in-order"}
CUBIC = ["--set", "dial.congestion=cubic"]
BESIDE = ["near", "iperf3", "-c", "10.99.0.2", "-p", "7009", "-t", "60", "-P", "4"]


class Live:
    """A transfer from A to B, or back, through relays on `relays`. The first one is asked; it has the options `near`, and the other one
    `far`. `wants` has the findings that are right, each as direction, kind and leg."""

    def __init__(self, name, link, *wants, relays=("near", "far"), near=(), far=(), client=(), sysctls=None, quota=None, beside=None):
        self.name, self.link, self.wants, self.relays, self.near, self.far = name, link, wants, relays, near, far
        self.client, self.sysctls, self.quota, self.beside = client, sysctls or {}, quota, beside


def pair(name, link, *wants, options=(), **more):
    return Live(name, link, *wants, near=options, far=options, **more)


def receive(size):
    return {"B": [f"net.ipv4.tcp_rmem=4096 {min(size, 131072)} {2 * size}"]}


SEND_256 = {"A": ["net.ipv4.tcp_wmem=4096 16384 524288"]}
SHALLOW = {**LINE, "rate": "100Mbit/s", "queue": "15kB"}
WORLDS = [
    Live("window-64", FAST, "up receiver-window dial", relays=("near",), sysctls=receive(65536)),
    Live("window-256", FAST, "up receiver-window dial", relays=("near",), sysctls=receive(262144)),
    Live("windows-fill-line", {**LINE, "rate": "100Mbit/s"}, "up link-rate dial", relays=("near",), sysctls=receive(524288), client=["-P", "2"]),
    Live("sndbuf-256", FAST, "up peer-send-buffer accept", relays=("far",), sysctls=SEND_256),
    Live("own-sndbuf", FAST, "up own-send-buffer dial", near=["--set", "dial.sndbuf=64KiB"]),
    Live("slow-app-up", FAST, "up application accept", client=["-b", "20M"]),
    # The program's own host is two legs away.
    Live("slow-app-down", FAST, "down application dial", client=["-b", "20M", "-R"]),
    Live("slow-app-far", FAST, "up application accept", relays=("far",), client=["-b", "20M"]),
    Live("slow-reader", {**LINE, "rate": "100Mbit/s"}, "up application dial", far=["--bandwidth", "60Mbit/s"]),
    Live("ssh", FAST, "up application-window -", client=["ssh"]),
    pair("loss-0.1-cubic", {**FAST, "loss": "0.1%"}, "up random-loss dial", options=CUBIC),
    pair("loss-0.1-bbr", {**FAST, "loss": "0.1%"}, "up link-rate dial"),
    pair("policer-bbr", POLICED, "up policer dial"),
    pair("policer-cubic", POLICED, "up policer dial", options=CUBIC),
    pair("shallow-bbr", SHALLOW, "up link-rate dial"),
    pair("shallow-cubic", SHALLOW, "up link-rate dial", options=CUBIC),
    pair("link-20", {**LINE, "rate": "20Mbit/s", "queue": "500kB"}, "up link-rate dial"),
    pair("link-20-cubic", {**LINE, "rate": "20Mbit/s", "queue": "500kB"}, "up link-rate dial", options=CUBIC),
    pair("link-200", LINE, "up link-rate dial"),
    pair("link-200-down", LINE, "down link-rate accept", client=["-R"], relays=("far", "near")),
    pair("link-200-cubic", LINE, "up link-rate dial", options=CUBIC),
    pair("eight-flows", LINE, "up link-rate dial", client=["-P", "8"]),
    pair("link-1000", FAST, "up link-rate dial"),
    pair("link-1000-cubic", FAST, "up link-rate dial", options=CUBIC),
    pair("queue-cubic", {**LINE, "rate": "100Mbit/s", "queue": "1MB"}, "up congested-queue dial", options=CUBIC, beside=BESIDE),
    pair("queue-bbr", {**LINE, "rate": "100Mbit/s", "queue": "1MB"}, "up congested-queue dial", beside=BESIDE),
    Live("cap", FAST, "up cap dial", near=["--bandwidth", "50Mbit/s"]),
    # As over two lines, one of them 90 ms longer. What comes less late than a round trip costs nothing: a relay's kernel has RACK.
    pair("reorder", {**LINE, "queue": "100kB", "out": {"reorder": "5% by 90ms"}}, "up reordering dial", options=CUBIC),
    pair("black-hole", HOLE, "up mtu-black-hole dial"),
    # BBR fills the line in spite of the lost fragments.
    pair("fragments", VPN, "up link-rate dial"),
    # A relay that splices carries 1 Gbit/s with 1 % of a core.
    Live("cpu", FAST, "up cpu -", near=["--no-splice"], quota=10_000),
    pair("dead", {**LINE, "schedule": ["at 9s loss 100%"]}, "up stalled dial"),
]


class Sshd:
    """Keys in a folder of their own, and the commands of a server and a client that use them."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.host, self.user = (f"{self.folder.name}/{name}" for name in ("host", "user"))
        for key in (self.host, self.user):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)

    def server(self):
        options = [f"AuthorizedKeysFile={self.user}.pub", "StrictModes=no", "PermitRootLogin=yes", "UsePAM=no"]
        return ["/usr/sbin/sshd", "-D", "-e", "-p", "7001", "-h", self.host, *(word for option in options for word in ("-o", option))]

    def client(self, via):
        options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        return ["sh", "-c", f"exec ssh -i {self.user} {options} -p 7001 root@{via} 'cat >/dev/null' </dev/zero"]


def measure(world, hosts, longhaul, quota):
    """Returns the findings of each look in the running lab `hosts`. `quota` is that of the relay that is asked."""
    hosts.set_sysctls(world)
    sshd = Sshd() if "ssh" in world.client else None
    hosts.start("B", *(sshd.server() if sshd else ["iperf3", "-s", "-p", "7001"]))
    start_relays(world, hosts, longhaul, quota)
    hosts.start_beside(world)
    time.sleep(1)
    if quota:
        quota.hold_back()
    via = "10.10.10.20" if "near" in world.relays else "10.99.0.2"
    command = sshd.client(via) if sshd else ["iperf3", "-c", via, "-p", "7001", "-t", "30", *world.client]
    hosts.start("A", *command)
    return [look(hosts, world, longhaul) for _ in range(LOOKS)]


def start_relays(world, hosts, longhaul, quota):
    last, pair_of = "10.20.20.10:7001", len(world.relays) > 1
    for host in ("far", "near"):
        if host not in world.relays:
            continue
        is_asked = host == world.relays[0]
        to = "10.99.0.2:7001" if host == "near" and pair_of else last
        more = {"preexec_fn": quota.enter} if quota and is_asked else {}
        options = world.near if host == "near" or not pair_of else world.far
        hosts.start(host, longhaul, "relay", "--listen", "7001", "--name", f"live-{host}", "--to", to, *options, **more)


def look(hosts, world, longhaul):
    """Waits, and returns what the relay says of the flow that has carried most: its finding and its rate."""
    time.sleep(SECONDS)
    at = world.relays[0]
    done = hosts.run(at, longhaul, "status", "--admin", f"/run/longhaul/live-{at}.sock", "--json")
    try:
        flows = json.loads(done.stdout)["flows"]
        return max(flows, key=lambda flow: flow["up_bytes"] + flow["down_bytes"])["finding"]
    except (ValueError, KeyError):
        return {"direction": "-", "kind": "none", "leg": None, "evidence": (done.stderr or "no flow").strip()}


def text(finding):
    return f"{finding['direction']} {finding['kind']} {finding['leg'] or '-'}"


def verdict(findings):
    """Returns the finding that stands in most of the last looks, of two the later one."""
    last = [text(finding) for finding in findings[-LAST:]]
    counts = collections.Counter(last)
    return max(reversed(last), key=lambda one: counts[one])


def show(world, findings):
    found = verdict(findings)
    kind = found.split()[1]
    mark = "ok" if found in world.wants else "unknown" if kind == "unknown" else f"WRONG, wanted {' or '.join(world.wants)}"
    print(f"{world.name:18} {found:34} {mark}", flush=True)
    for number, finding in enumerate(findings):
        if number == 0 or text(finding) != text(findings[number - 1]) or number == len(findings) - 1:
            what_if = f"; without it {finding['what_if_mbps']}, then {finding['then_limited_by']}" if finding.get("what_if_mbps") else ""
            print(f"    {(number + 1) * SECONDS:2} s  {text(finding)}: {finding['evidence']}{what_if}", flush=True)


# Seconds between two looks, the number of looks, and how many of the last ones count.
SECONDS, LOOKS, LAST = 3, 8, 4
