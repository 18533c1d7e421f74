"""Roots of Debian and Ubuntu, each an overlay of its own, and a relay in one of them."""

import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = REPOSITORY / "target/package"
ROOTS = REPOSITORY / "target/roots"
QEMU = {"arm64": "aarch64", "ppc64el": "ppc64le"}
UBUNTU = {"xenial", "bionic", "jammy", "noble"}
# A second root of each Debian has these programs, too. debootstrap does not see that python3-cffi-backend is needed.
MORE = "systemd,python3,python3-apt,python3-cffi-backend,iproute2,ansible-core,monitoring-plugins-basic"
VERSION = re.search(r'^version = "(.*)"', (REPOSITORY / "Cargo.toml").read_text(), re.M)[1]
OLD_VERSION = "0.0.1"
RPM = PACKAGES / f"longhaul-{VERSION}-1.x86_64.rpm"
TARBALL = PACKAGES / f"longhaul-{VERSION}-linux-x86_64.tar.gz"
FILE = """[[tunnel]]
name = "test"
listen = "127.0.0.1:6000"
to = "127.0.0.1:7000"
"""
# What dpkg, rpm and the loader write for every package.
KEPT = re.compile(r"/(var/lib/(dpkg|rpm)|usr/lib/sysimage/rpm|root/\.rpmdb|var/log|var/cache|dev|proc|run|etc/ld\.so\.cache)(/|$)")
# Stands in for a running systemd, and writes down what it was asked for.
SYSTEMCTL = """#!/bin/sh
echo "$*" >>/systemctl.log
case "$1" in list-units) echo "longhaul.service loaded active running longhaul" ;; esac
"""


def run(*command, fails=False, **options):
    """Runs `command`, and returns what it wrote. It must succeed, or fail if `fails`."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    assert (done.returncode != 0) == fails, f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def deb(architecture="amd64"):
    return PACKAGES / f"longhaul_{VERSION}-1_{architecture}.deb"


def make_root(name):
    """SUITE, SUITE-ARCHITECTURE, or SUITE-systemd, which has the programs of MORE, too."""
    suite, _, kind = name.partition("-")
    if kind in QEMU:
        run(REPOSITORY / "scripts/qemu-user", QEMU[kind])
    if (ROOTS / name).exists():
        return
    print(f"making the root of {name}", flush=True)
    ROOTS.mkdir(parents=True, exist_ok=True)
    part = ROOTS / f"{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    # In a mount namespace: if it is interrupted, its /proc is not left mounted.
    command, source = ["unshare", "--mount", "debootstrap", "--variant=minbase"], []
    if suite in UBUNTU:
        keyring = run(REPOSITORY / "scripts/ubuntu-keyring").strip()
        # Each release of Ubuntu is made as the first one was.
        command, source = [*command, "--include=systemd", "--keyring", keyring], ["http://archive.ubuntu.com/ubuntu", "/usr/share/debootstrap/scripts/gutsy"]
    if kind == "systemd":
        command.append(f"--include={MORE}")
    elif kind:
        command += ["--arch", kind]
    run(*command, suite, part, *source)
    part.rename(ROOTS / name)


class Root:
    """A Debian of its own: an overlay in a tmpfs of `size` over the root that debootstrap made once."""

    def __init__(self, suite, size="2G"):
        self.base = ROOTS / suite
        self.scratch = Path(tempfile.mkdtemp())
        run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.scratch)
        for name in ("upper", "work", "root"):
            (self.scratch / name).mkdir()
        self.path = self.scratch / "root"
        layers = f"lowerdir={self.base},upperdir={self.scratch}/upper,workdir={self.scratch}/work"
        run("mount", "-t", "overlay", "-o", layers, "overlay", self.path)
        run("mount", "-t", "proc", "proc", self.path / "proc")

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        # Without a failure nothing may be left that holds a file.
        run("umount", "--recursive", *(["--lazy"] if failure else []), self.scratch)
        self.scratch.rmdir()

    def run(self, *command, **options):
        return run("chroot", self.path, *command, **options)

    def dpkg(self, action, package, **options):
        if isinstance(package, Path):
            shutil.copy(package, self.scratch / "package.deb")
            run("mount", "--bind", self.scratch, self.path / "mnt")
            try:
                return self.run("dpkg", action, "/mnt/package.deb", **options)
            finally:
                run("umount", self.path / "mnt")
        return self.run("dpkg", action, package, **options)

    def files(self):
        """Every file but those of the package manager itself, with mode and size."""
        found = {}
        for folder, folders, names in os.walk(self.path):
            for name in folders + names:
                path = Path(folder, name)
                shown = "/" + str(path.relative_to(self.path))
                if not KEPT.match(shown):
                    found[shown] = (path.lstat().st_mode, 0 if path.is_dir() else path.lstat().st_size)
        return found

    def changed(self, before):
        """The files that came, went or changed since `files` has returned `before`."""
        now = self.files()
        return {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}

    def with_systemd(self):
        """From now on the package's scripts see a systemd. Returns the file in which it writes what they asked for."""
        (self.path / "run/systemd/system").mkdir(parents=True)
        (self.path / "usr/bin/systemctl").write_text(SYSTEMCTL)
        (self.path / "usr/bin/systemctl").chmod(0o755)
        return self.path / "systemctl.log"


class Relay:
    """`command` as a relay, from `listen` to a server here, at `to`, which sends back the digest of what came."""

    def __init__(self, *command, listen=("127.0.0.1", 6000), to=("127.0.0.1", 7000)):
        self.listen = listen
        self.server = socket.create_server(to)
        threading.Thread(target=self.serve, daemon=True).start()
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                socket.create_connection(listen).close()
                return
            except OSError:
                time.sleep(0.1)
        failure = AssertionError("the relay does not listen")
        self.__exit__(failure)
        raise failure

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        """Ends the process, which must end well. After a failure, it leaves neither the process nor the server to the next test."""
        (self.process.kill if failure else self.process.terminate)()
        code = self.process.wait(60)
        # Ends accept(), too.
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        assert failure or code == 0, code

    def serve(self):
        while True:
            try:
                peer, _ = self.server.accept()
            except OSError:
                return
            digest = hashlib.sha256()
            while chunk := peer.recv(1 << 20):
                digest.update(chunk)
            peer.sendall(digest.digest())
            peer.close()

    def transfer(self, size):
        payload = os.urandom(1 << 20)
        digest = hashlib.sha256()
        with socket.create_connection(self.listen) as peer:
            for _ in range(size >> 20):
                peer.sendall(payload)
                digest.update(payload)
            peer.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: peer.recv(64), b""))
        assert answer == digest.digest(), f"bytes were lost or changed: {answer!r}"


def main(tests, prepare):
    """Runs the tests that the command line names, or all, after `prepare(names)`. Prints a line for each, and exits with 1 if one failed."""
    names = sys.argv[1:] or list(tests)
    unknown = [name for name in names if name not in tests]
    if unknown:
        sys.exit(f"longhaul: no such test: {' '.join(unknown)}; there are: {' '.join(tests)}")
    if "LONGHAUL_INSIDE" not in os.environ:
        prepare(names)
        # Mounts and addresses of its own.
        os.execvpe("unshare", ["unshare", "--mount", "--net", "--fork", "--kill-child", sys.executable, *sys.argv], {**os.environ, "LONGHAUL_INSIDE": "yes"})
    run("ip", "link", "set", "lo", "up")
    passed, failed = 0, 0
    for name in names:
        for test in tests[name]:
            try:
                print(f"{name}: {test() or 'good'}", flush=True)
                passed += 1
            except Exception:
                traceback.print_exc()
                print(f"{name}: FAILED", flush=True)
                failed += 1
    print(f"{Path(sys.argv[0]).name}: {passed} passed, {failed} failed, of {' '.join(names)}")
    sys.exit(failed > 0)
