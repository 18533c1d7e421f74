"""The first advice for the worlds of `benches/path`, applied: `benches/path --apply` measures a world, takes the first advice of
`longhaul advise --from`, does in the world what it says, and compares the rate then with the `what_if_mbps` of the first finding."""

import copy
import json
import tempfile
import time
from pathlib import Path

FLAGS = ["--near-listen", "10.10.10.20:6000", "--far-listen", "10.99.0.2:6000", "--target", "10.20.20.10:7010"]
# Bytes of a buffer that limits no world.
LARGE = 67108864
# How far the rate may be from the predicted one.
NEAR = 0.15


class Pair:
    """A world with two limits. `alone` has the worlds without one of them, by the kind of the one that is gone."""

    def __init__(self, world, alone):
        self.name, self.world, self.alone = world.name, world, alone


def receive(most):
    return [f"net.ipv4.tcp_rmem=4096 {min(most, 131072)} {most}"]


def send(most):
    return [f"net.ipv4.tcp_wmem=4096 16384 {most}"]


def pairs(World, fast, line, cubic):
    """Returns the worlds with two limits at once."""
    # One direction alone loses, so that the other has no limit that is worth more.
    lossy, hole = {**fast, "out": {"loss": "0.1%"}}, {**line, "mtu": "1400 black-hole"}
    world = lambda name, link, sysctls: World(name, link, [], "A", "B", sysctls)
    return [
        Pair(world("window+loss", lossy, {"A": cubic, "B": [*cubic, *receive(524288)]}),
             {"receiver-window": world("loss", lossy, {"A": cubic, "B": cubic}),
              "random-loss": world("window", fast, {"A": cubic, "B": [*cubic, *receive(524288)]})}),
        Pair(world("window+hole", hole, {"B": receive(131072)}),
             {"receiver-window": world("hole", hole, {}), "mtu-black-hole": world("window", line, {"B": receive(131072)})}),
        Pair(world("buffer+window", fast, {"A": [*send(524288), *receive(LARGE)], "B": [*send(LARGE), *receive(262144)]}),
             {"receiver-window": world("buffer", fast, {"A": send(524288)}), "own-send-buffer": world("window", fast, {"B": receive(262144)})}),
    ]


class Bench:
    """The functions of `benches/path`, and the program."""

    def __init__(self, longhaul, hosts_of, measure, addresses, keep):
        self.longhaul, self.hosts_of, self.measure, self.addresses, self.keep = longhaul, hosts_of, measure, addresses, keep

    def run(self, world):
        """Measures, applies and measures again. Returns the row of the table, and prints it."""
        document = self.before(world)
        finding = document["findings"][0]
        run = next(one for one in document["runs"] if one["direction"] == finding["direction"])
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(document, file)
            file.flush()
            with self.hosts_of(world) as hosts:
                hosts.set_sysctls(world)
                advice = self.ask(hosts, world.client, "advise", "--from", file.name, "--json", *FLAGS)
                done, after = self.apply(hosts, world, json.loads(advice), finding["direction"])
                others = self.others(hosts, world, file.name, json.loads(advice)) if after is not None else "-"
        what_if = finding["what_if_mbps"]
        row = [world.name, f"{finding['direction']} {finding['kind']}", done, shown(run["payload_mbps"]), shown(what_if), shown(after), ratio(after, what_if), others]
        print(table([row]), flush=True)
        return row

    def before(self, world):
        """Measures, and keeps the document where that is asked for."""
        document = self.measure(world)
        if self.keep:
            Path(self.keep, f"{world.name}-apply.json").write_text(json.dumps(document), encoding="utf-8")
        return document

    def ask(self, hosts, host, *command):
        done = hosts.run(host, self.longhaul, *command)
        if done.returncode:
            raise SystemExit(f"longhaul {' '.join(command)}: {done.stderr}")
        return done.stdout

    def apply(self, hosts, world, advice, direction):
        """Does what the first advice says. Returns that in words, and the rate then; `None` where nothing can be applied."""
        first = advice["first"]
        if first is None:
            return "none: the limit is not known", None
        if first["host"]:
            host = world.server if first["host"] == "far" else world.client
            settings = [one for one in advice["systems"][0]["settings"] if one["first"] and one["set_now"] and one["place"] != "router"]
            for setting in settings:
                command = setting["set_now"].replace("ROUTE", self.route(hosts, host, world))
                done = hosts.run(host, "sh", "-c", command)
                if done.returncode:
                    raise SystemExit(f"{world.name}: {command}: {done.stderr}")
            names = ", ".join(f"{one['name']} = {one['value']}" for one in settings)
            return f"{host}: {names}", self.rate(hosts, world, direction)
        if first["relays"]:
            return f"relays: {first['relays']}", self.through_relays(hosts, advice, direction)
        if first["kind"] == "cpu":
            return "the quota was taken away", self.first_rate(changed(world, quota=None), direction)
        if first["kind"] == "congested-queue":
            return "the other traffic was ended", self.alone(changed(world, beside=None), direction)
        return f"cannot be applied: {first['text']}", None

    def first_rate(self, world, direction):
        """Returns the rate of the first run of `longhaul path`: the quota is that of its responder."""
        document = self.measure(world)
        return next(run["payload_mbps"] for run in document["runs"] if run["direction"] == direction)

    def route(self, hosts, host, world):
        peer = ({"A": "10.10.10.10", "near": "10.99.0.1"} | self.addresses)[world.client if host == world.server else world.server]
        lines = hosts.run(host, "ip", "route", "show", "match", peer).stdout.strip().splitlines()
        return lines[-1].replace(" linkdown", "").strip() if lines else "default"

    def rate(self, hosts, world, direction):
        """Returns the rate of one connection of iperf3 in the world."""
        hosts.start(world.server, "iperf3", "-s", "-p", "7010")
        time.sleep(0.5)
        return iperf3(hosts, world.client, self.addresses[world.server], "7010", direction)

    def through_relays(self, hosts, advice, direction):
        """Returns the rate of one connection from A to B, through relays with the files that `advise` wrote."""
        hosts.start("B", "iperf3", "-s", "-p", "7010")
        with tempfile.TemporaryDirectory() as folder:
            for host in ("far", "near"):
                file = Path(folder, f"{host}.toml")
                # The near relay listens in its LAN, and dials from its address on the WAN: the file says to write that.
                text = advice["longhaul_toml"][host].replace('"10.10.10.20/32"', '"10.99.0.1/32"')
                file.write_text(text + f'\n[admin]\nsocket = "{folder}/{host}.sock"\n', encoding="utf-8")
                hosts.start(host, self.longhaul, "run", "-c", file)
            time.sleep(2)
            return iperf3(hosts, "A", "10.10.10.20", "6000", direction)

    def others(self, hosts, world, file, advice):
        """Returns whether audit, tune and `lab init` say the same first."""
        kind = advice["first"]["kind"]
        init = self.ask(hosts, world.client, "lab", "init", "--from", file)
        tune = self.ask(hosts, world.client, "tune", "--from", file, "--dry-run")
        paste = hosts.run(world.client, "sysctl", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_congestion_control").stdout
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as pasted:
            pasted.write(paste)
            pasted.flush()
            audit = json.loads(self.ask(hosts, world.client, "audit", pasted.name, "--from", file, "--json"))
        text = " ".join(advice["first"]["text"].split())
        said = {"audit": audit["first"]["text"] == advice["first"]["text"] and audit["first"]["kind"] == kind,
                "tune": text in " ".join(tune.split()), "init": text in " ".join(init.replace("#", " ").split())}
        return "the same" if all(said.values()) else f"not {', '.join(name for name, same in said.items() if not same)}"

    def run_pair(self, pair):
        """Measures a world with two limits, and the rate without each of them."""
        document = self.before(pair.world)
        finding = document["findings"][0]
        rates = {"both": self.alone(pair.world, finding["direction"])}
        rates |= {kind: self.alone(world, finding["direction"]) for kind, world in pair.alone.items()}
        gains = {kind: rate - rates["both"] for kind, rate in rates.items() if kind != "both"}
        right = max(gains, key=gains.get) == finding["kind"]
        without = "; ".join(f"without {kind} {shown(rates[kind])}" for kind in gains)
        row = [pair.name, f"{finding['direction']} {finding['kind']}", f"{shown(rates['both'])}; {without}", shown(finding["what_if_mbps"]), "yes" if right else "NO"]
        print(table([row]), flush=True)
        return row

    def alone(self, world, direction):
        with self.hosts_of(world) as hosts:
            hosts.set_sysctls(world)
            return self.rate(hosts, world, direction)


def changed(world, **what):
    """Returns a copy of a world with other values."""
    other = copy.copy(world)
    vars(other).update(what)
    return other


def iperf3(hosts, client, to, port, direction):
    """Returns the rate of one connection once it is at its full speed: with a larger buffer, CUBIC needs up to 10 s for 1 Gbit/s."""
    reverse = ["-R"] if direction == "down" else []
    done = hosts.run(client, "iperf3", "-c", to, "-p", port, "-t", "6", "-O", "24", "-J", *reverse)
    try:
        return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e6
    except (ValueError, KeyError):
        # Nothing passes.
        return 0.0


def shown(rate):
    return "-" if rate is None else f"{rate:.1f}"


def ratio(after, what_if):
    if after is None or not what_if:
        return "-"
    share = after / what_if
    return f"{share:.2f}" + ("" if abs(share - 1) <= NEAR else " WRONG")


def table(rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


HEAD = """| world | first finding | applied | before | what_if | after | ratio | audit, tune, lab init |
| --- | --- | --- | ---: | ---: | ---: | ---: | --- |"""
HEAD_OF_PAIRS = """| world | first finding | rate with both, and without one, in Mbit/s | what_if | first is the one worth more |
| --- | --- | --- | ---: | --- |"""
