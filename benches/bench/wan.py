"""What is measured over the emulated WAN, 63 ms there and back: throughput at 1 and 10 Gbit/s, loss, and scp."""

import time
from contextlib import contextmanager
from functools import partial

from .carriers import CARRIERS, Carrier, longhaul
from .host import BenchError, Wan, sh
from .measure import IPERF, LISTEN, medians, rounds

RTT_MS = 63
# Of 1500 bytes on the line, 1448 are the stream's: the rest is IP and TCP headers with timestamps.
GOODPUT = 1448 / 1500
SSH = 2222


def set_dial(congestion):
    """longhaul with a congestion control of the WAN leg."""
    words = ["--set", f"dial.congestion={congestion}"]
    return Carrier(
        f"longhaul, {congestion}",
        f"`longhaul relay --listen PORT --to NEXT {' '.join(words)}`",
        lambda listen, to, scratch: longhaul(listen, to, scratch) + words,
    )


@contextmanager
def pairs(net, carriers, port, scratch):
    """Each carrier on both relays: {name: (None, (host, port))}, and the direct path."""
    started, processes = {"direct": (None, (net.B, port))}, []
    try:
        for listen, carrier in enumerate(carriers, start=LISTEN):
            processes.append(carrier.start(net, listen, f"{net.B}:{port}", scratch, "far"))
            processes.append(carrier.start(net, listen, f"{net.FAR}:{listen}", scratch, "near"))
            started[carrier.name] = (None, (net.NEAR, listen))
        yield started
    finally:
        for process in processes:
            process.stop()


@contextmanager
def on_b(net, *words, port, scratch):
    process = net.start("B", *words, log=scratch / f"B-{port}.log")
    try:
        net.wait_for_port("B", port, process)
        yield
    finally:
        process.stop()


def throughput(carriers, options, scratch, say, rate, loss=0.0):
    """iperf3 from A to B, after three seconds: the climb to the rate is another question than the rate."""

    def one(net, _name, _process, host, port):
        words = ["iperf3", "-c", host, "-p", port, "-t", options.seconds, "-O", 3, "-J"]
        # A server for each run: what one run left under way, the next server does not know.
        with on_b(net, "iperf3", "-s", "-1", "-p", IPERF, port=IPERF, scratch=scratch):
            report = net.json("A", *words, timeout=options.seconds + 60, check=False)
        if "error" in report:
            raise BenchError(f"{' '.join(map(str, words))}: {report['error']}")
        bits = report["end"]["sum_received"]["bits_per_second"]
        return {"mbyte_s": bits / 8e6, "of_line": 100 * bits / (rate * GOODPUT)}

    with Wan("aix", RTT_MS, int(rate), loss, scratch / "wan.log") as net:
        with pairs(net, carriers, IPERF, scratch) as started:
            return medians(rounds(options, started, partial(one, net), say))


def among(found, *names):
    return [CARRIERS[name] for name in names if any(carrier.name == name for carrier in found)]


def line_rate(found, options, scratch, say):
    table = {}
    for gigabits in (1, 10):
        results = throughput(among(found, "socat", "longhaul"), options, scratch, say, gigabits * 1e9)
        table |= {f"{gigabits} Gbit/s, {name}": row for name, row in results.items()}
    return table


def loss(found, options, scratch, say):
    carriers = among(found, "socat")
    if among(found, "longhaul"):
        carriers += [set_dial("cubic"), set_dial("bbr")]
    return throughput(carriers, options, scratch, say, 1e9, loss=0.001)


SSHD = """\
Port {port}
HostKey {keys}/host
AuthorizedKeysFile {keys}/user.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
"""


def scp(found, options, scratch, say):
    """One file by scp: between AIX-like hosts, and between Linux hosts as what could be had if they could be changed."""
    keys = scratch / "keys"
    keys.mkdir(exist_ok=True)
    for name in ("host", "user"):
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / name)
    (keys / "sshd").write_text(SSHD.format(port=SSH, keys=keys))
    source, target = scratch / "source", scratch / "target"
    with open("/dev/urandom", "rb") as random, open(source, "wb") as file:
        for _ in range(options.scp_mb):
            file.write(random.read(1000 * 1000))

    empty = scratch / "empty"
    empty.touch()

    def copy(net, file, host, port):
        settings = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "IdentitiesOnly=yes", "LogLevel=ERROR"]
        words = ["scp", "-q", "-F", "none", "-i", keys / "user", "-P", port]
        words += [word for setting in settings for word in ("-o", setting)]
        began = time.monotonic()
        net.run("A", *words, file, f"root@{host}:{target}", timeout=options.scp_mb * 2 + 60)
        return time.monotonic() - began

    def one(net, _name, _process, host, port):
        login = copy(net, empty, host, port)
        seconds = copy(net, source, host, port)
        sh("cmp", source, target)
        target.unlink()
        return {"mbyte_s": options.scp_mb / (seconds - login), "login_s": login}

    # sshd wants /run/sshd; it gets a /run of its own.
    server = f"mount -t tmpfs none /run && mkdir /run/sshd && exec $(command -v sshd) -D -e -f {keys}/sshd"
    table = {}
    for hosts, carriers in (("aix", among(found, "socat", "longhaul")), ("linux", [])):
        with Wan(hosts, RTT_MS, 10**9, 0, scratch / "wan.log") as net:
            with on_b(net, "unshare", "--mount", "sh", "-c", server, port=SSH, scratch=scratch):
                with pairs(net, carriers, SSH, scratch) as started:
                    results = medians(rounds(options, started, partial(one, net), say))
        table |= {f"{hosts} hosts, {name}": row for name, row in results.items()}
    return table
