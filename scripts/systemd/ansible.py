"""The test of packaging/ansible, for `scripts/test-packages bookworm-systemd`. It runs beside a systemd that is PID 1, in a root of Debian with
that Debian's Ansible. /root has the role, and two versions of the package: old.deb and new.deb.
"""

import json
import os
import re
import socket
import subprocess
import tomllib

from cases import CONFIG, LONG, SERVICE, Server, expect, finish, flow, longhaul, shown, stop, talk, write

PLAYBOOK = "- hosts: localhost\n  roles:\n    - longhaul\n"
ENVIRONMENT = {**os.environ, "HOME": "/root", "ANSIBLE_ROLES_PATH": "/root/ansible", "ANSIBLE_NOCOLOR": "1"}


def ansible(*arguments, program="ansible-playbook", of="/root/site.yml"):
    command = [program, "-i", "localhost,", "-c", "local", *arguments, of]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=5 * LONG, env=ENVIRONMENT)
    return done.returncode, done.stdout


def play(*arguments, fails=False, **variables):
    """Runs the role with `variables`. Returns the number of changed tasks, and what Ansible wrote."""
    write("/root/vars.json", json.dumps(variables))
    code, said = ansible("-e", "@/root/vars.json", *arguments)
    expect((code != 0) == fails, f"{variables} ended with {code}:\n{said}")
    return int(re.search(r" changed=(\d+) ", said)[1]), said


def nagios():
    """The line of docs/metrics.md. Returns its exit code, and its output."""
    command = ["/usr/lib/nagios/plugins/check_http", "-H", "127.0.0.1", "-p", "9650", "-u", "/readyz"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
    return done.returncode, done.stdout


def tunnel(name, port, server, **more):
    # `verify_final`: no probe is in the server's queue.
    return {"name": name, "listen": f"127.0.0.1:{port}", "to": [f"127.0.0.1:{server.port}"], "allow": ["127.0.0.1"],
            "verify_hops": 0, "verify_final": False, **more}


def content():
    with open(CONFIG, "rb") as file:
        return file.read()


def rendered():
    """The template writes as TOML what YAML and JSON may say."""
    value = {"text": 'a "b" \\ c\n\t\u00fc\U0001f600', "list": ["b1:6000", "b2:6000"], "number": 1254, "switch": False, "table": {"inner": {"key": "x"}}}
    write("/root/vars.json", json.dumps({"longhaul_daemon": value, "longhaul_tunnels": [value, value]}))
    template = "src=/root/ansible/longhaul/templates/longhaul.toml.j2 dest=/root/rendered.toml"
    code, said = ansible("-m", "template", "-a", template, "-e", "@/root/vars.json", program="ansible", of="localhost")
    expect(code == 0, said)
    with open("/root/rendered.toml", "rb") as file:
        found = tomllib.load(file)
    expect(found == {**value, "tunnel": [value, value]}, found)


def installed(server):
    """The first run installs, starts and verifies. The second changes nothing, nor does a dry run."""
    write("/root/site.yml", PLAYBOOK)
    expect(ansible("--syntax-check")[0] == 0, "the syntax")
    settings = {"longhaul_package": "/root/old.deb", "longhaul_daemon": {"drain_timeout": "1s", "admin": {"listen": "127.0.0.1:9650"}},
                "longhaul_tune": {"rtt": "63ms", "rate": "1Gbit/s"}, "longhaul_tunnels": [tunnel("one", 6000, server)]}
    changed, said = play(**settings)
    expect(changed == 5 and "longhaul OK" in said, said)
    expect((shown(SERVICE, "ActiveState"), shown(SERVICE, "UnitFileState")) == ("active", "enabled"), "the unit")
    for arguments in ([], ["--check"]):
        changed, said = play(*arguments, **settings)
        expect(changed == 0, said)
    expect(nagios()[0] == 0, nagios()[1])
    return settings


def changed(server, settings):
    """A tunnel more is a reload. What `check` or the daemon refuses leaves the old file. The live flow stays."""
    before, pid, live = content(), shown(SERVICE, "MainPID"), flow(6000, server)
    one, taken = settings["longhaul_tunnels"], socket.create_server(("127.0.0.1", 6002))
    refused = ((tunnel("two", 6001, server, lisen="127.0.0.1:6001"), "failed to validate.*lisen"),
               (tunnel("two", 6002, server), "the old file is in force: .*EADDRINUSE"))
    for bad, why in refused:
        said = play(fails=True, **{**settings, "longhaul_tunnels": [*one, bad]})[1]
        expect(re.search(why, said) and content() == before, said)
        code, said = longhaul("status", "--json")
        expect(code == 0 and "reload_refused" not in json.loads(said), said)
        talk(*live)
    options = {"dial": {"congestion": "reno", "mss": 1254}, "connect_timeout": "5s", "max_flows": 10}
    settings = {**settings, "longhaul_tunnels": [*one, tunnel("two", 6001, server, **options)]}
    expect(play("--check", **settings)[0] == 1 and content() == before, "a dry run")
    expect(play(**settings)[0] == 2, "the file and the reload")
    taken.close()
    finish(*flow(6001, server))
    talk(*live)
    expect(shown(SERVICE, "MainPID") == pid, "another process")
    return live, settings


def upgraded(live, settings):
    """An upgrade leaves the daemon as it is, unless the role may restart it."""
    pid, settings = shown(SERVICE, "MainPID"), {**settings, "longhaul_package": "/root/new.deb"}
    for expected in (2, 0):
        changed, said = play(**settings)
        expect(changed == expected and "changes over" in said and shown(SERVICE, "MainPID") == pid, said)
        talk(*live)
    finish(*live)
    changed, said = play(**settings, longhaul_restart=True)
    expect(changed == 1 and shown(SERVICE, "MainPID") not in (pid, "0"), said)
    settings["longhaul_package"] = "longhaul"
    changed, said = play(**settings)
    expect(changed == 0 and "changes over" not in said, said)
    return settings


def healed(settings):
    """A daemon that could not start with one file starts with the next one, although systemd tries all the time."""
    stop(SERVICE)
    with socket.create_server(("127.0.0.1", 6002)):
        more = tunnel("three", 6002, Server())
        said = play(fails=True, **{**settings, "longhaul_tunnels": [*settings["longhaul_tunnels"], more]})[1]
        expect("Enable and start the daemon" in said and "Look whether" not in said, said)
        play(**settings)
    expect(shown(SERVICE, "ActiveState") == "active", "it does not serve")


def main():
    server = Server()
    rendered()
    settings = installed(server)
    live, settings = changed(server, settings)
    healed(upgraded(live, settings))
    expect(longhaul("drain")[0] == 0 and nagios()[0] == 2 and "503" in nagios()[1], nagios()[1])
    expect(longhaul("drain", "--undo")[0] == 0 and nagios()[0] == 0, nagios()[1])
    print(ansible("--version")[1].splitlines()[0])


main()
