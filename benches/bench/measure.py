"""What is measured on one hop: throughput, new connections, ping-pong, idle flows. Each measurement goes round by round
over all carriers, so that whatever else the machine does falls on all of them alike."""

import subprocess
from contextlib import contextmanager
from statistics import median

from .host import ROOT, BenchError, machine_busy_seconds

LOAD = ROOT / "target/release/examples/bench-load"
LISTEN, IPERF, ECHO, HOLD = 6000, 5201, 7001, 7002
# What `rate` keeps in flight, and what the echo server can answer at once; one more, for the connection that is closing.
CONCURRENCY = 64


@contextmanager
def serving(net, *words, port, scratch):
    """A server on the server host for as long as the block lasts."""
    process = net.start("server", *words, log=scratch / f"server-{port}.log")
    try:
        net.wait_for_port("server", port, process)
        yield process
    finally:
        process.stop()


@contextmanager
def relays(net, carriers, to, scratch):
    """Every carrier on a port of its own: {name: (process or None, (host, port))}."""
    started = {}
    try:
        for number, carrier in enumerate(carriers):
            process = carrier.start(net, LISTEN + number, to, scratch)
            started[carrier.name] = (process, carrier.address(net, LISTEN + number, to))
        yield started
    finally:
        for process, _ in started.values():
            if process:
                process.stop()


def rounds(options, started, one, say):
    """Runs `one(name, process, host, port)` in each round for each carrier; {name: [result of each round]}."""
    results = {name: [] for name in started}
    for number in range(options.rounds):
        for name, (process, (host, port)) in started.items():
            result = one(name, process, host, port)
            results[name].append(result)
            say(f"round {number + 1}/{options.rounds}  {name:<10} " + "  ".join(f"{k} {v:.4g}" for k, v in result.items()))
    return results


def medians(results):
    """{name: {key: {median, min, max}}} of the rounds."""
    table = {}
    for name, runs in results.items():
        table[name] = {
            key: {"median": median(run[key] for run in runs), "min": min(run[key] for run in runs), "max": max(run[key] for run in runs)}
            for key in runs[0]
        }
    return table


def iperf(net, host, port, seconds, *more):
    """One iperf3 run from the client: the received bytes and bits per second."""
    words = ["iperf3", "-c", host, "-p", port, "-t", seconds, "-O", 1, "-C", "cubic", "-J", *more]
    report = net.json("client", *words, timeout=seconds + 30, check=False)
    if "error" in report:
        raise BenchError(f"{' '.join(map(str, words))}: {report['error']}")
    return report["end"]["sum_received"]


def one_hop(net, carriers, options, scratch, say):
    def one(_name, process, host, port):
        cpu, (busy, softirq) = process.cpu_seconds() if process else 0, machine_busy_seconds()
        # A server for each run: what one run left under way, the next server does not know.
        with serving(net, "iperf3", "-s", "-1", "-p", IPERF, port=IPERF, scratch=scratch):
            received = iperf(net, host, port, options.seconds)
        # iperf3 leaves the first second out of its bytes, but the CPU was spent on them too.
        gigabytes = received["bytes"] / 1e9 * (options.seconds + 1) / options.seconds
        busy_after, softirq_after = machine_busy_seconds()
        return {
            "gbit_s": received["bits_per_second"] / 1e9,
            "relay_cpu_s_per_gb": ((process.cpu_seconds() if process else 0) - cpu) / gigabytes,
            "machine_cpu_s_per_gb": (busy_after - busy) / gigabytes,
            "machine_softirq_s_per_gb": (softirq_after - softirq) / gigabytes,
        }

    with relays(net, carriers, f"{net.SERVER}:{IPERF}", scratch) as started:
        return medians(rounds(options, started, one, say))


def new_connections(net, carriers, options, scratch, say):
    def one(_name, _process, host, port):
        return net.json("client", LOAD, "rate", f"{host}:{port}", CONCURRENCY, options.seconds, timeout=options.seconds + 30)

    # A connection waits for its turn in the relay and in the server: twice the threads of the client never all wait.
    with serving(net, LOAD, "serve", f"0.0.0.0:{ECHO}", CONCURRENCY * 2, port=ECHO, scratch=scratch):
        with relays(net, carriers, f"{net.SERVER}:{ECHO}", scratch) as started:
            return medians(rounds(options, started, one, say))


def ping_pong(net, carriers, options, scratch, say):
    def one(_name, _process, host, port):
        return net.json("client", LOAD, "pingpong", f"{host}:{port}", options.pings, timeout=120)

    with serving(net, LOAD, "serve", f"0.0.0.0:{ECHO}", CONCURRENCY, port=ECHO, scratch=scratch):
        with relays(net, carriers, f"{net.SERVER}:{ECHO}", scratch) as started:
            return medians(rounds(options, started, one, say))


def idle_flows(net, carriers, options, scratch, say):
    """Flows that have carried a byte each way and now wait. A carrier is new for each round: memory once had stays."""
    results = {}
    # socat has a process for each flow: its figure would measure fork, and 4,000 of them this machine.
    carriers = [carrier for carrier in carriers if carrier.words and carrier.name != "socat"]
    for number in range(options.rounds):
        for carrier in carriers:
            result = idle_round(net, carrier, options, scratch)
            results.setdefault(carrier.name, []).append(result)
            say(f"round {number + 1}/{options.rounds}  {carrier.name:<10} " + "  ".join(f"{k} {v:.4g}" for k, v in result.items()))
    return medians(results)


def idle_round(net, carrier, options, scratch):
    to = f"{net.SERVER}:{HOLD}"
    with serving(net, LOAD, "serve-hold", f"0.0.0.0:{HOLD}", port=HOLD, scratch=scratch):
        with relays(net, [carrier], to, scratch) as started:
            process, (host, port) = started[carrier.name]
            # The first flow brings in code and threads that every later one shares.
            net.run("client", LOAD, "hold", f"{host}:{port}", 1)
            memory, descriptors = process.private_bytes(), process.descriptors()
            holder = net.start(
                "client", LOAD, "hold", f"{host}:{port}", options.flows,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, log=scratch / "hold.log",
            )
            try:
                if holder.child.stdout.readline() != b"ready\n":
                    raise BenchError(f"{carrier.name}: could not hold {options.flows} flows; {open(holder.log).read()}")
                return {
                    "user_bytes_per_flow": (process.private_bytes() - memory) / options.flows,
                    "descriptors_per_flow": (process.descriptors() - descriptors) / options.flows,
                }
            finally:
                holder.child.stdin.close()
                holder.stop()
