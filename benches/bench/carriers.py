"""What carries the traffic: each carrier is started the way its own manual says, and its exact command or configuration
goes into the report."""

import re
import shutil
import subprocess
from pathlib import Path

from .host import ROOT

LONGHAUL = ROOT / "target/release/longhaul"

HAPROXY = """\
global
    nbthread 2
    maxconn 6000
defaults
    mode tcp
    option splice-request
    option splice-response
    timeout connect 10s
    timeout client 1h
    timeout server 1h
listen relay
    bind :{listen}
    server next {to}
"""

NGINX = """\
load_module {module};
daemon off;
worker_processes 2;
worker_rlimit_nofile 20000;
pid {scratch}/nginx.pid;
error_log {scratch}/nginx.log;
events {{ worker_connections 10000; }}
stream {{
    server {{
        listen {listen};
        proxy_pass {to};
    }}
}}
"""


class Carrier:
    """One way across the relay host."""

    def __init__(self, name, describe, words):
        self.name = name
        # One line for the report: command or configuration.
        self.describe = describe
        # (listen port, "host:port", scratch folder) -> the command line; None for the path without a relay.
        self.words = words

    def start(self, net, listen, to, scratch, part="relay"):
        """Runs it on the relay host; the caller stops it."""
        if self.words is None:
            return None
        process = net.start(part, *self.words(listen, to, scratch), log=scratch / f"{self.name}-{part}.log")
        net.wait_for_port(part, listen, process)
        return process

    def address(self, net, listen, to):
        """Where the client connects: (host, port)."""
        host, port = (net.RELAY_NEAR, listen) if self.words else to.split(":")
        return host, int(port)


def socat(listen, to, _scratch):
    return ["socat", f"TCP4-LISTEN:{listen},fork,reuseaddr", f"TCP4:{to}"]


def haproxy(listen, to, scratch):
    file = scratch / f"haproxy-{listen}.cfg"
    file.write_text(HAPROXY.format(listen=listen, to=to))
    return ["haproxy", "-db", "-f", file]


def nginx_module():
    for folder in ("/usr/lib/nginx/modules", "/usr/lib64/nginx/modules"):
        file = Path(folder) / "ngx_stream_module.so"
        if file.exists():
            return file
    return None


def nginx(listen, to, scratch):
    file = scratch / f"nginx-{listen}.conf"
    file.write_text(NGINX.format(listen=listen, to=to, scratch=scratch, module=nginx_module()))
    return ["nginx", "-c", file, "-e", scratch / "nginx.log"]


def longhaul(listen, to, _scratch):
    return [LONGHAUL, "relay", "--listen", f"0.0.0.0:{listen}", "--to", to]


def shown(text):
    """A configuration on one line."""
    return "; ".join(" ".join(line.split()).rstrip(";") for line in text.splitlines() if line.strip())


CARRIERS = {
    "routed": Carrier("routed", "no relay: `ip_forward` on the host in the middle", None),
    "socat": Carrier("socat", "`socat TCP4-LISTEN:PORT,fork,reuseaddr TCP4:NEXT`", socat),
    "nginx": Carrier("nginx", f"`{shown(NGINX.format(module='ngx_stream_module.so', listen='PORT', to='NEXT', scratch='DIR'))}`", nginx),
    "haproxy": Carrier("haproxy", f"`{shown(HAPROXY.format(listen='PORT', to='NEXT'))}`", haproxy),
    "longhaul": Carrier("longhaul", "`longhaul relay --listen PORT --to NEXT`", longhaul),
}


def available():
    """(the carriers that can run here, {name: why not} for the others)."""
    missing = {}
    for name in ("socat", "haproxy", "nginx"):
        if not shutil.which(name):
            missing[name] = "not installed"
    if "nginx" not in missing and not nginx_module():
        missing["nginx"] = "its stream module is not installed"
    if not knows_relay():
        missing["longhaul"] = f"{LONGHAUL.relative_to(ROOT)} is not built; run: make build"
    return [carrier for name, carrier in CARRIERS.items() if name not in missing], missing


def knows_relay():
    try:
        done = subprocess.run([LONGHAUL, "relay", "--help"], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def versions():
    """What was measured, in the words of each program."""
    commands = {
        "longhaul": [str(LONGHAUL), "--version"],
        "socat": ["socat", "-V"],
        "haproxy": ["haproxy", "-v"],
        "nginx": ["nginx", "-v"],
        "iperf3": ["iperf3", "-v"],
        "OpenSSH": ["ssh", "-V"],
    }
    found = {}
    for name, words in commands.items():
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except OSError:
            continue
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if re.search(r"\d\.\d", line)]
        if lines:
            found[name] = lines[0]
    return found


