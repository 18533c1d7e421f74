"""The cases of scripts/test-systemd. This program runs in the namespaces of a systemd that is PID 1 there.

Each case controls the units of packaging/ by systemctl, as an administrator does. It talks to the relay by TCP connections on
loopback, as hosts do. A case waits up to LONG for bytes, endings (FIN or RST) and states of systemd, and asserts them.
"""

import os
import socket
import subprocess
import sys
import time
import traceback

LONG = 60.0
CONFIG = "/etc/longhaul/longhaul.toml"
SERVICE = "longhaul.service"


class Failed(Exception):
    """A case did not see what it asserts."""


def expect(condition, text):
    if not condition:
        raise Failed(text)


def wait_for(what, condition):
    """Waits until `condition()` returns something true, and returns it."""
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise Failed(f"not seen within {LONG:.0f} s: {what}")


def systemctl(*arguments, good=True):
    done = subprocess.run(["systemctl", *arguments], capture_output=True, text=True, timeout=180)
    if good:
        expect(done.returncode == 0, f"systemctl {' '.join(arguments)}: {done.stderr.strip()}")
    return done


def shown(unit, key):
    return systemctl("show", "--value", f"--property={key}", unit).stdout.strip()


def wait_shown(unit, key, wanted):
    try:
        wait_for(key, lambda: shown(unit, key) == wanted)
    except Failed:
        raise Failed(f"{key} of {unit} is {shown(unit, key)!r} and not {wanted!r} within {LONG:.0f} s") from None


def process_status(pid):
    """Returns the fields of /proc/PID/status."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def journal(unit):
    done = subprocess.run(["journalctl", "-u", unit, "-o", "cat"], capture_output=True, text=True, timeout=60)
    return done.stdout


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def tunnel(name, listen, server, more=""):
    return f'[[tunnel]]\nname = "{name}"\nlisten = "127.0.0.1:{listen}"\nto = ["127.0.0.1:{server.port}"]\n{more}\n'


class Server:
    """A host behind the relay. Accepts a connection when a case calls `accept`."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.settimeout(LONG)
        self.port = self.socket.getsockname()[1]

    def accept(self):
        end, _ = self.socket.accept()
        end.settimeout(LONG)
        return end


def dial(port, source=None):
    bound = (source, 0) if source else None
    return socket.create_connection(("127.0.0.1", port), timeout=LONG, source_address=bound)


def is_closed(port):
    """Whether nobody listens. Makes no connection, because a drain would wait for the flow of a late connection."""
    done = subprocess.run(["ss", "-Hltn", f"sport = :{port}"], capture_output=True, text=True, timeout=60, check=True)
    return not done.stdout.strip()


def receive(end, count):
    """Returns `count` bytes, or fewer if the stream ends before."""
    got = b""
    while len(got) < count:
        try:
            more = end.recv(count - len(got))
        except ConnectionResetError:
            break
        if not more:
            break
        got += more
    return got


def talk(one, other):
    """Sends a message each way and asserts that it arrives."""
    for sender, receiver, message in ((one, other, b"to the server"), (other, one, b"to the client")):
        sender.sendall(message)
        got = receive(receiver, len(message))
        expect(got == message, f"{got!r} is not {message!r}")


def flow(port, server):
    """Opens a flow through the relay. Returns the client's end and the server's end."""
    client = dial(port)
    end = server.accept()
    talk(client, end)
    return client, end


def expect_fin(end):
    expect(end.recv(1) == b"", "bytes where the end was expected")
    end.close()


def expect_reset(end):
    try:
        got = end.recv(1)
    except ConnectionResetError:
        end.close()
        return
    raise Failed(f"RST expected, got {got!r} ({'FIN' if not got else 'bytes'})")


def finish(client, end):
    """Ends a flow by FIN each way."""
    client.shutdown(socket.SHUT_WR)
    expect_fin(end)
    expect_fin(client)


def start(unit, config=None):
    if config is not None:
        write(CONFIG, config)
    systemctl("start", unit)


def stop(*units):
    systemctl("stop", *units)
    systemctl("reset-failed", *units, good=False)


# ---- the cases, in the order in which they run ----


def started_with_the_rights_of_the_unit(server):
    start(SERVICE, tunnel("one", 6000, server, 'allow = ["127.0.0.1"]'))
    expect(shown(SERVICE, "ActiveState") == "active", "not active after start")
    client, end = flow(6000, server)
    status = process_status(shown(SERVICE, "MainPID"))
    expect(status["Uid"].split()[0] != "0", "it runs as root")
    # CAP_NET_BIND_SERVICE is bit 10 and CAP_SYS_RESOURCE bit 24 (capabilities(7)). A container may lack the latter.
    wanted = (1 << 10 | 1 << 24) & int(process_status("1")["CapBnd"], 16)
    expect(int(status["CapEff"], 16) == wanted, f"capabilities {status['CapEff']}, not {wanted:x}")
    expect(status["Seccomp"] == "2", "no seccomp filter")
    finish(client, end)
    wait_for("`flow ended` in the journal", lambda: "flow ended" in journal(SERVICE))
    log = journal(SERVICE)
    # The relay needs no slow replacement for anything under the shipped seccomp filter and limits.
    for word in ("WARN", "ERROR", "splice is refused"):
        expect(word not in log, f"{word} in the journal:\n{log}")
    stop(SERVICE)


def status_says_tunnels_flows_and_what_is_refused(server):
    start(SERVICE, tunnel("one", 6000, server, 'allow = ["127.0.0.1"]') + tunnel("two", 6001, server))
    expect(shown(SERVICE, "StatusText") == "2 tunnels, 0 flows", shown(SERVICE, "StatusText"))
    client, end = flow(6000, server)
    wait_shown(SERVICE, "StatusText", "2 tunnels, 1 flow")
    stranger = None
    try:
        stranger = dial(6000, source="127.0.0.2")
        expect_reset(stranger)
    except ConnectionResetError:
        pass
    wait_shown(SERVICE, "StatusText", "2 tunnels, 1 flow; since the start 1 connection refused")
    finish(client, end)
    wait_shown(SERVICE, "StatusText", "2 tunnels, 0 flows; since the start 1 connection refused")
    stop(SERVICE)


def killed_resets_its_flows_and_comes_back(server):
    start(SERVICE, tunnel("one", 6000, server))
    client, end = flow(6000, server)
    before = shown(SERVICE, "MainPID")
    systemctl("kill", "--signal=KILL", SERVICE)
    expect_reset(client)
    expect_reset(end)
    wait_for("a start of its own", lambda: shown(SERVICE, "MainPID") not in (before, "0"))
    wait_shown(SERVICE, "ActiveState", "active")
    expect(shown(SERVICE, "NRestarts") == "1", f"NRestarts={shown(SERVICE, 'NRestarts')}")
    finish(*flow(6000, server))
    stop(SERVICE)


def a_good_reload_changes_what_is_new(server):
    start(SERVICE, tunnel("one", 6000, server))
    live, other = flow(6000, server), Server()
    write(CONFIG, tunnel("one", 6000, other) + tunnel("two", 6001, other))
    systemctl("reload", SERVICE)
    wait_shown(SERVICE, "StatusText", "2 tunnels, 1 flow")
    talk(*live)
    finish(*flow(6000, other))
    finish(*flow(6001, other))
    expect(shown(SERVICE, "NRestarts") == "0", "it was restarted")
    finish(*live)
    stop(SERVICE)


def a_bad_reload_changes_nothing(server):
    good = tunnel("one", 6000, server)
    start(SERVICE, good)
    live, other, taken = flow(6000, server), Server(), Server()
    # The unit's `longhaul check` finds this error: systemctl reload fails, and the daemon gets no signal.
    write(CONFIG, tunnel("one", 6000, other) + "no-such-key = 1\n")
    expect(systemctl("reload", SERVICE, good=False).returncode != 0, "a bad file was reloaded")
    finish(*flow(6000, server))
    # Only the kernel finds this error: a port in use.
    write(CONFIG, tunnel("one", 6000, other) + tunnel("two", taken.port, other))
    systemctl("reload", SERVICE)
    said = wait_for("the refusal in StatusText", lambda: "EADDRINUSE" in shown(SERVICE, "StatusText") and shown(SERVICE, "StatusText"))
    expect(said.startswith("reload refused: tunnel two: cannot listen on ") and "; 1 tunnel, 1 flow" in said, said)
    finish(*flow(6000, server))
    talk(*live)
    write(CONFIG, good)
    systemctl("reload", SERVICE)
    wait_shown(SERVICE, "StatusText", "1 tunnel, 1 flow")
    finish(*live)
    expect(shown(SERVICE, "ActiveState") == "active", "not active after a bad reload")
    stop(SERVICE)


def a_bad_file_is_not_tried_again(_server):
    write(CONFIG, "[[tunnel]]\nname = 7\n")
    expect(systemctl("start", SERVICE, good=False).returncode != 0, "a bad file was started")
    wait_shown(SERVICE, "ActiveState", "failed")
    expect(shown(SERVICE, "ExecMainStatus") == "2", f"exit code {shown(SERVICE, 'ExecMainStatus')}")
    expect(shown(SERVICE, "NRestarts") == "0", "it was tried again")
    stop(SERVICE)


def an_address_that_comes_late_heals_by_itself(server):
    taken = socket.create_server(("127.0.0.1", 6000))
    write(CONFIG, tunnel("one", 6000, server))
    systemctl("start", "--no-block", SERVICE)
    wait_for("a second try", lambda: shown(SERVICE, "NRestarts") not in ("", "0"))
    taken.close()
    wait_shown(SERVICE, "ActiveState", "active")
    finish(*flow(6000, server))
    stop(SERVICE)


def a_tunnel_without_a_file(server):
    unit = f"longhaul@127.0.0.1:6200:127.0.0.1:{server.port}.service"
    write(f"/etc/longhaul/127.0.0.1:6200:127.0.0.1:{server.port}.env", "LONGHAUL_OPTIONS=--allow 127.0.0.1/32 --drain-timeout 1s\n")
    start(unit)
    expect(shown(unit, "StatusText") == "1 tunnel, 0 flows", shown(unit, "StatusText"))
    finish(*flow(6200, server))
    try:
        expect_reset(dial(6200, source="127.0.0.2"))
    except ConnectionResetError:
        pass
    # A restart: a flow that does not end within the drain timeout is reset, and the new process serves.
    live, before = flow(6200, server), shown(unit, "MainPID")
    systemctl("restart", unit)
    for end in live:
        expect_reset(end)
    expect(shown(unit, "MainPID") != before, "the same process after a restart")
    finish(*flow(6200, server))
    stop(unit)


def each_unit_has_a_control_socket(server):
    """The daemon and the instances share the folder of the sockets. The end of one leaves the sockets of the others."""
    unit = f"longhaul@127.0.0.1:6200:127.0.0.1:{server.port}.service"
    own = f"/run/longhaul/127.0.0.1-6200-127.0.0.1-{server.port}.sock"
    start(SERVICE, tunnel("one", 6000, server))
    start(unit)
    live = flow(6200, server)
    for arguments, port in ((["status"], 6000), (["status", "--admin", own], 6200)):
        code, said = longhaul(*arguments)
        expect(code == 0 and "serving" in said and f"127.0.0.1:{port}" in said, said)
    expect(longhaul("reload") == (0, "reloaded, tunnels: 1\n"), "reload")
    stop(SERVICE)
    code, said = longhaul("status")
    expect(code == 1 and "no daemon at /run/longhaul/admin.sock: longhaul.service is inactive (dead)" in said, said)
    expect(longhaul("status", "--nagios")[0] == 2, "a stopped daemon is broken")
    expect(longhaul("status", "--nagios", "--admin", own) == (0, "longhaul OK - 1 tunnel, 1 flow | flows=1\n"), "the instance")
    start(SERVICE)
    expect(longhaul("status")[0] == 0, "the socket is there again")
    stop(SERVICE)
    finish(*live)
    expect(longhaul("drain", "--admin", own)[0] == 0, "drain")
    stop(unit)
    expect(not os.path.exists(own), "the socket of a unit that has stopped")


def longhaul(*arguments):
    """Runs longhaul. Returns its exit code and what it printed."""
    done = subprocess.run(["longhaul", *arguments], capture_output=True, text=True, timeout=LONG)
    return done.returncode, done.stdout + (done.stderr if done.returncode else "")


def a_stop_drains(server):
    start(SERVICE, 'drain_timeout = "60s"\n' + tunnel("one", 6000, server))
    client, end = flow(6000, server)
    systemctl("stop", "--no-block", SERVICE)
    wait_shown(SERVICE, "StatusText", "draining, 1 flow left")
    expect(shown(SERVICE, "ActiveState") == "deactivating", shown(SERVICE, "ActiveState"))
    wait_for("the listener is closed", lambda: is_closed(6000))
    talk(client, end)
    finish(client, end)
    wait_shown(SERVICE, "ActiveState", "inactive")
    expect(shown(SERVICE, "Result") == "success", shown(SERVICE, "Result"))


def a_stop_resets_what_is_left_after_the_drain_timeout(server):
    start(SERVICE, 'drain_timeout = "1s"\n' + tunnel("one", 6000, server))
    live = flow(6000, server)
    systemctl("stop", SERVICE)
    for end in live:
        expect_reset(end)
    expect(shown(SERVICE, "Result") == "success", shown(SERVICE, "Result"))


def a_restart_drains_and_serves_again(server):
    start(SERVICE, 'drain_timeout = "60s"\n' + tunnel("one", 6000, server))
    live, before = flow(6000, server), shown(SERVICE, "MainPID")
    systemctl("restart", "--no-block", SERVICE)
    wait_for("the listener is closed", lambda: is_closed(6000))
    talk(*live)
    finish(*live)
    wait_for("another process", lambda: shown(SERVICE, "MainPID") not in (before, "0"))
    wait_shown(SERVICE, "ActiveState", "active")
    finish(*flow(6000, server))
    stop(SERVICE)


def a_restart_with_systemd_s_socket_refuses_nobody(server):
    write("/etc/systemd/system/longhaul.socket", open("/usr/share/longhaul/longhaul.socket", encoding="utf-8").read()
          .replace("ListenStream=10.10.10.20:6000", "ListenStream=127.0.0.1:6000"))
    systemctl("daemon-reload")
    write(CONFIG, 'drain_timeout = "60s"\n' + tunnel("one", 6000, server))
    systemctl("start", "longhaul.socket")
    expect(shown(SERVICE, "ActiveState") == "inactive", "the daemon runs before anybody has connected")
    # The first connection starts the daemon.
    live = flow(6000, server)
    before = shown(SERVICE, "MainPID")
    systemctl("restart", "--no-block", SERVICE)
    wait_shown(SERVICE, "StatusText", "draining, 1 flow left")
    waiting = dial(6000)
    waiting.sendall(b"early")
    talk(*live)
    finish(*live)
    late = server.accept()
    expect(late.recv(5) == b"early", "the connection that waited lost its bytes")
    expect(shown(SERVICE, "MainPID") != before, "the same process after a restart")
    finish(waiting, late)
    stop("longhaul.socket", SERVICE)
    os.remove("/etc/systemd/system/longhaul.socket")
    systemctl("daemon-reload")


def check_knows_the_rights_of_the_unit(server):
    reno = 'accept = { congestion = "reno" }\ndial = { congestion = "reno", mark = 7 }'
    write(CONFIG, 'drain_timeout = "2min"\n' + tunnel("one", 6000, server, reno))
    code, said = longhaul("check", "--strict")
    expect(code == 2 and "longhaul.service does not give CAP_NET_ADMIN" in said, said)
    expect("drain_timeout = 2min: after TimeoutStopSec=90s of longhaul.service" in said, said)
    drop_in = "/etc/systemd/system/longhaul.service.d/more.conf"
    given = open("/usr/share/longhaul/net-admin.conf", encoding="utf-8").read()
    write(drop_in, given + "TimeoutStopSec=1h 2min\n")
    systemctl("daemon-reload")
    code, said = longhaul("check", "--strict")
    os.remove(drop_in)
    systemctl("daemon-reload")
    expect(code == 0, said)


CASES = [
    check_knows_the_rights_of_the_unit,
    started_with_the_rights_of_the_unit,
    status_says_tunnels_flows_and_what_is_refused,
    killed_resets_its_flows_and_comes_back,
    a_good_reload_changes_what_is_new,
    a_bad_reload_changes_nothing,
    a_bad_file_is_not_tried_again,
    an_address_that_comes_late_heals_by_itself,
    a_tunnel_without_a_file,
    each_unit_has_a_control_socket,
    a_stop_drains,
    a_stop_resets_what_is_left_after_the_drain_timeout,
    a_restart_drains_and_serves_again,
    a_restart_with_systemd_s_socket_refuses_nobody,
]


class Watchdog:
    """Tests that the watchdog ends a stopped process, and systemd starts it again. Waits while the other cases run."""

    def __init__(self):
        self.server = Server()
        self.unit = f"longhaul@127.0.0.1:6300:127.0.0.1:{self.server.port}.service"
        start(self.unit)
        self.live = flow(6300, self.server)
        self.pid = shown(self.unit, "MainPID")
        systemctl("kill", "--signal=STOP", self.unit)

    def check(self):
        # The watchdog's SIGABRT comes after WatchdogSec=30s, and the flow ends with RST.
        for end in self.live:
            expect_reset(end)
        wait_for("another process", lambda: shown(self.unit, "MainPID") not in (self.pid, "0"))
        wait_shown(self.unit, "ActiveState", "active")
        expect(shown(self.unit, "NRestarts") == "1", shown(self.unit, "NRestarts"))
        finish(*flow(6300, self.server))
        stop(self.unit)


def run(name, case):
    began = time.monotonic()
    try:
        case()
    except Exception as err:  # any error is a failure of this case, and the next cases still run
        print(f"FAILED {name}: {err}", flush=True)
        if not isinstance(err, Failed):
            traceback.print_exc()
        units = systemctl("list-units", "--no-legend", "--plain", "--all", "longhaul*", good=False).stdout
        log = subprocess.run(["journalctl", "-n", "40", "-o", "short-monotonic", "--no-pager"],
                             capture_output=True, text=True, timeout=60).stdout
        print(f"{units}{log}", flush=True)
        for unit in [line.split()[0] for line in units.splitlines()]:
            if "6300" not in unit:
                systemctl("kill", "--signal=KILL", unit, good=False)
                stop(unit)
        return False
    print(f"ok {name} ({time.monotonic() - began:.1f} s)", flush=True)
    return True


def main():
    wanted = sys.argv[1:]
    systemd = subprocess.run(["systemctl", "--version"], capture_output=True, text=True, timeout=60).stdout
    print(f"{systemd.splitlines()[0]}, kernel {os.uname().release}", flush=True)
    watchdog, results = None, []
    if not wanted or "watchdog" in wanted:
        watchdog = Watchdog()
    for case in CASES:
        if not wanted or case.__name__ in wanted:
            results.append(run(case.__name__, lambda case=case: case(Server())))
    if watchdog:
        results.append(run("the_watchdog_ends_what_stands_still", watchdog.check))
    print(f"test-systemd: {results.count(True)} passed, {results.count(False)} failed", flush=True)
    sys.exit(0 if all(results) and results else 1)


if __name__ == "__main__":
    main()
