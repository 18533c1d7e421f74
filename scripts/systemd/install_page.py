"""Runs the commands of docs/install.md that `scripts/test-packages bookworm-systemd` has put into /root/commands, beside a systemd that is
PID 1. The far relay of the page, 10.20.20.20, and its server are in a network namespace of their own.
"""

import socket
import subprocess

from cases import LONG, expect

FAR = """ip netns add far
ip link add wan type veth peer name wan netns far
ip addr add 10.20.20.1/24 dev wan
ip link set wan up
ip -n far addr add 10.20.20.20/24 dev wan
ip -n far link set wan up
ip -n far link set lo up"""
# Answers each client with what it sent.
SERVER = "import socketserver as s; s.ThreadingTCPServer(('127.0.0.1', 22), type('H', (s.StreamRequestHandler,), {'handle': " \
    "lambda h: [h.wfile.write(b) for b in iter(lambda: h.rfile.read1(65536), b'')]})).serve_forever()"


def shell(line, **options):
    done = subprocess.run(line, shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2 * LONG, **options)
    expect(done.returncode == 0, f"{line} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def main():
    shell(FAR)
    with open("/root/commands", encoding="utf-8") as file:
        commands = file.read().splitlines()
    # The program for the far relay comes with the package: the first command.
    far = []
    for line in commands:
        said = shell(line, cwd="/root/download", input="y\n")
        if not far:
            tunnel = ["longhaul", "relay", "--listen", "10.20.20.20:6000", "--to", "127.0.0.1:22", "--verify-hops", "0"]
            for command in (["python3", "-c", SERVER], tunnel):
                far.append(subprocess.Popen(["ip", "netns", "exec", "far", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        if line.startswith("longhaul verify"):
            expect("whole" in said, said)
    payload = bytes(range(256)) * 256
    with socket.create_connection(("127.0.0.1", 6000), timeout=LONG) as peer:
        peer.sendall(payload)
        peer.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: peer.recv(65536), b""))
        expect(received == payload, f"{len(received)} other bytes came back")
    for process in far:
        process.terminate()
    print(f"{len(commands) + 2} commands of docs/install.md, and a transfer")


main()
