"""Puts a relay before each server of pyftpdlib's own tests: `python3 -m pytest -p pyftpdlib_relay`.

The variable LONGHAUL is the path of the program. A test of EXCEPTIONS must fail: one that passes is an error.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time

import pytest
from tests import FtpdThreadWrapper as Server

WORDING = "the relay answers a bad or forbidden address itself, in its own words"
EXCEPTIONS = {
    "TestFtpCmdsSemantic::test_arg_cmds": WORDING,
    "TestFtpCmdsSemantic::test_auth_cmds": WORDING + ", before the server asks for a login",
    "TestConfigurableOptions::test_masquerade_address": "the relay refuses the address of a third host",
    "TestConfigurableOptions::test_masquerade_address_map": "the relay refuses the address of a third host",
    "TestConfigurableOptions::test_passive_ports": "the client gets a port of the relay",
    "TestIPv4Environment::test_eprt": WORDING,
    "TestIPv4Environment::test_eprt_v4": WORDING,
    "TestIPv4Environment::test_port_v4": WORDING,
    "TestIPv6Environment::test_eprt": WORDING,
    "TestIPv6Environment::test_eprt_v6": WORDING,
    "TestIPv6Environment::test_epsv_all": "the relay refuses PASV over IPv6 with 425, and the server with 501",
    "ThreadedFTPTests::test_permit_privileged_ports": "the relay never dials a port below 1024",
}
# Not run: these pass or fail by chance.
RACES = {
    "test_active_conn_error": "the server connects at PORT, to the relay, and answers 200: it fails if that takes less than 0.1 s. "
    "The relay answers the transfer with 425",
}

begin, end = Server.__init__, Server.stop


def begin_with_relay(self, addr=None):
    begin(self, addr)
    self.log = tempfile.NamedTemporaryFile("w+")
    # A server on :: has clients of IPv4 here.
    to = ("127.0.0.1" if self.host == "::" else self.host, self.port)
    # Reserved, and not by a listener, so that the relay can bind it.
    with socket.socket(self.server.socket.family) as port:
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port.bind((self.host, 0))
        self.port = port.getsockname()[1]
        listen, to = (f"[{ip}]:{at}" if ":" in ip else f"{ip}:{at}" for ip, at in ((self.host, self.port), to))
        command = [os.environ["LONGHAUL"], "relay", "--protocol", "ftp", "--listen", listen, "--to", to]
        self.relay = subprocess.Popen(command, stderr=self.log)
        until = time.time() + 60
        while "listening" not in log_of(self):
            assert self.relay.poll() is None and time.time() < until, log_of(self)
            time.sleep(0.005)


def end_with_relay(self):
    if self.relay.poll() is None:
        self.relay.kill()
        self.relay.wait()
        # pytest shows it if the test fails.
        sys.stderr.write(log_of(self))
    end(self)


def log_of(self):
    # Not by its own descriptor, whose offset is that of the relay.
    with open(self.log.name) as log:
        return log.read()


Server.__init__, Server.stop = begin_with_relay, end_with_relay


def pytest_collection_modifyitems(items):
    named = {item.nodeid.split("::", 1)[1]: item for item in items}
    for name, why in EXCEPTIONS.items():
        named[name].add_marker(pytest.mark.xfail(reason=why, strict=True))
    for name, item in named.items():
        if why := RACES.get(item.name):
            item.add_marker(pytest.mark.skip(reason=why))
