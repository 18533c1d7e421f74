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
        "64 clients at once, each: connect, one byte there and back, close, again.",
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


def ratios(figures, columns):
    """longhaul's first column as a multiple of each other's."""
    key, heading, _, _ = columns[0]
    if "longhaul" not in figures:
        return []
    own = figures["longhaul"][key]["median"]
    others = {name: row[key]["median"] for name, row in figures.items() if name != "longhaul" and row[key]["median"]}
    return [f"{heading}, longhaul to: " + ", ".join(f"{name} {own / other:.2f}" for name, other in others.items()) + "."] if others else []


def behind(results):
    """Every cell in which another carrier has the better median, by more than 2 %: less than that is noise here."""
    lines = []
    for part, figures in results["parts"].items():
        if "longhaul" not in figures:
            continue
        for key, heading, digits, better in LAYOUT[part][2]:
            own = figures["longhaul"][key]["median"]
            for name, row in figures.items():
                other = row.get(key, {}).get("median")
                if name in ("longhaul", "routed") or other is None:
                    continue
                if (better == "more" and own < other * 0.98) or (better == "less" and own > other * 1.02):
                    lines.append(f"- {LAYOUT[part][0]}, {heading}: longhaul {own:,.{digits}f}, {name} {other:,.{digits}f}.")
    return lines


__all__ = ["document", "host", "tables"]
