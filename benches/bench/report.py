"""From the figures to docs/benchmarks.md. Nothing in it is typed by hand: a number that is there was measured in the
run whose host and commands stand above it."""

import os
import platform
import time
from pathlib import Path

from .carriers import CARRIERS

# part: title, what it is, and its columns (key, heading, digits, and what is better: more, less or neither)
LAYOUT = {
    "one-hop": (
        "One hop",
        "Three network namespaces, client, relay host and server, joined by veth pairs. iperf3, one stream, CUBIC on every "
        "socket. CPU of the relay is its own user and system time; what soft interrupts do for it is on nobody's account "
        "and is in the column of the whole machine, with iperf3's own work.",
        [
            ("gbit_s", "Gbit/s", 2, "more"),
            ("relay_cpu_s_per_gb", "relay CPU s/GB", 3, "less"),
            ("machine_cpu_s_per_gb", "machine CPU s/GB", 3, "less"),
            ("machine_softirq_s_per_gb", "of it softirq", 3, ""),
        ],
    ),
    "connections": (
        "New connections",
        "64 clients at once, each: connect, one byte there and back, close, again. longhaul writes its log line for each flow to "
        "a file, as it does by default; the others log nothing.",
        [
            ("per_second", "connections/s", 0, "more"),
            ("p50_us", "p50 µs", 0, "less"),
            ("p99_us", "p99 µs", 0, "less"),
            ("failed", "failed", 0, ""),
        ],
    ),
    "ping-pong": (
        "One-byte ping-pong",
        "One connection, one byte there and back, over and over.",
        [("p50_us", "p50 µs", 1, "less"), ("p99_us", "p99 µs", 1, "less")],
    ),
    "idle": (
        "Idle flows",
        "Flows that have carried one byte each way and now wait. Memory is what the process alone uses (Private of "
        "smaps_rollup), the difference to one flow, for each flow.",
        [("user_bytes_per_flow", "user bytes/flow", 0, "less"), ("descriptors_per_flow", "descriptors/flow", 2, "less")],
    ),
    "wan": (
        "The pair over 63 ms",
        "The lab's emulated WAN, 63 ms there and back, between two hosts like AIX at its defaults: windows of 256 KiB, Reno, no "
        "SACK. iperf3, one stream, after three seconds. The line is what a stream of 1448-byte segments can have of the rate. "
        "The bytes under way, and in the relays, when the timing starts arrive within it, so a short run can read a little above 100 %.",
        [("mbyte_s", "MB/s", 1, "more"), ("of_line", "% of the line", 1, "more")],
    ),
    "loss": (
        "The pair over 63 ms with loss",
        "The same at 1 Gbit/s, with 0.1 % of the segments lost at random in each direction.",
        [("mbyte_s", "MB/s", 1, "more"), ("of_line", "% of the line", 1, "more")],
    ),
    "scp": (
        "scp over 63 ms",
        "One file of random bytes at 1 Gbit/s; the time that scp takes for an empty file is the login. OpenSSH has a window of its own, 2 MiB, so "
        "33 MB/s is the most at 63 ms. The Linux hosts, with buffers that cover the path, are what it would be without relays if "
        "the hosts could be changed.",
        [("mbyte_s", "MB/s", 1, "more"), ("login_s", "login s", 2, "less")],
    ),
}


def host():
    cpus = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = int(Path("/proc/meminfo").read_text().split()[1]) // 1024 // 1024
    return {
        "date": time.strftime("%Y-%m-%d"),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": f"{os.cpu_count()} x {cpus[0] if cpus else platform.processor() or 'CPU'}",
        "memory": f"{memory} GiB",
        "load before": f"{os.getloadavg()[0]:.2f}",
        "tcp_rmem": sysctl("net/ipv4/tcp_rmem"),
        "tcp_wmem": sysctl("net/ipv4/tcp_wmem"),
    }


def sysctl(name):
    return " ".join(Path("/proc/sys", name).read_text().split())


def document(results):
    options = results["options"]
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; do not edit. Every figure is the median of "
        f"{options['rounds']} interleaved rounds of {options['seconds']} s, lowest and highest in brackets.",
        "",
        "| host | |",
        "| --- | --- |",
        *[f"| {key} | {value} |" for key, value in results["host"].items()],
        *[f"| {key} | {value} |" for key, value in results["versions"].items()],
        "",
        *[f"Left out: {name} ({why})." for name, why in results["missing"].items()],
        tables(results),
        "## Where longhaul is behind",
        "",
        *(behind(results) or ["In this run, nowhere."]),
        "",
        "## What was run",
        "",
        *[f"- {carrier.name}: {carrier.describe}" for carrier in CARRIERS.values() if carrier.name not in results["missing"]],
        "",
        "`PORT` is where the carrier listens and `NEXT` the server or the next relay. The measuring itself is in `benches/`.",
        "",
    ]
    return "\n".join(lines)


def tables(results):
    return "\n".join(table(part, figures) for part, figures in results["parts"].items())


def table(part, figures):
    title, what, columns = LAYOUT[part]
    lines = [f"## {title}", "", what, "", "```", f"benches/run --only {part}", "```", ""]
    lines += ["| | " + " | ".join(heading for _, heading, _, _ in columns) + " |", "| --- |" + " ---: |" * len(columns)]
    for name, row in figures.items():
        cells = [cell(row.get(key), digits) for key, _, digits, _ in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", *ratios(figures, columns), ""]
    return "\n".join(lines)


def cell(figure, digits):
    if figure is None:
        return "-"
    low, high = f"{figure['min']:,.{digits}f}", f"{figure['max']:,.{digits}f}"
    return f"{figure['median']:,.{digits}f}" + (f" ({low} to {high})" if low != high else "")


def own_rows(figures):
    """(its name, its row, the rows it is compared with) of each row that is longhaul's. "10 Gbit/s, longhaul" is compared
    with the rows of 10 Gbit/s, "longhaul, bbr" with all that are not longhaul's."""
    for name, row in figures.items():
        if "longhaul" in name:
            group = name[: name.index("longhaul")]
            yield name, row, {k: v for k, v in figures.items() if k.startswith(group) and "longhaul" not in k}


def ratios(figures, columns):
    """longhaul's first column as a multiple of each other's."""
    key, heading, _, _ = columns[0]
    lines = []
    for name, own, others in own_rows(figures):
        parts = [f"{other} {own[key]['median'] / row[key]['median']:.2f}" for other, row in others.items() if row[key]["median"]]
        if parts:
            lines += [f"{heading}, {name} to: " + "; ".join(parts) + ".", ""]
    return lines[:-1]


def behind(results):
    """Every cell in which a carrier has the better median, by more than 2 %: less than that is noise here."""
    lines = []
    for part, figures in results["parts"].items():
        title, _, columns = LAYOUT[part]
        for name, own, others in own_rows(figures):
            for key, heading, digits, better in columns:
                mine = own[key]["median"]
                for other, row in others.items():
                    theirs = row[key]["median"]
                    # The routed path has no relay whose CPU could be counted.
                    if other == "routed" and key.startswith("relay_"):
                        continue
                    if (better == "more" and mine < theirs * 0.98) or (better == "less" and mine > theirs * 1.02):
                        lines.append(f"- {title}, {heading}: {name} {mine:,.{digits}f}, {other} {theirs:,.{digits}f}.")
    return lines
