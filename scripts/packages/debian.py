"""The deb: installed, used, upgraded while bytes flow, removed, purged, damaged."""

import re
import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from roots import FILE, OLD_VERSION, PACKAGES, REPOSITORY, VERSION, Relay, Root, deb, run


def old_deb(folder, architecture="amd64"):
    """The package with the version of the release before."""
    run("dpkg-deb", "-R", deb(architecture), folder / "old")
    control = folder / "old/DEBIAN/control"
    control.write_text(control.read_text().replace(f"Version: {VERSION}-1", f"Version: {OLD_VERSION}-1"))
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "-b", folder / "old", folder / "old.deb")
    return folder / "old.deb"


def upgrades_under_load(root, install, size=64 << 20):
    """20 transfers or more while `install(old)` replaces the program, and back. The daemon is never restarted."""
    done, count, replaced = threading.Event(), 0, []

    def replace():
        while not done.is_set():
            install(len(replaced) % 2 == 0)
            replaced.append(None)

    command = ["chroot", root.path, "longhaul", "run", "-c", "/etc/longhaul/longhaul.toml"]
    with Relay(*command) as relay, ThreadPoolExecutor() as pool:
        replacing = pool.submit(replace)
        try:
            while not replacing.done() and (count < 20 or len(replaced) < 2):
                relay.transfer(size)
                count += 1
        finally:
            done.set()
        # Raises what `install` has raised.
        replacing.result()
    return f"{count} transfers right while the package was replaced {len(replaced)} times"


def debian(name, architecture="amd64"):
    """Installed, used, replaced while bytes flow, half installed, removed, purged."""
    with Root(name) as root, tempfile.TemporaryDirectory() as folder:
        new, old, before = deb(architecture), old_deb(Path(folder), architecture), root.files()
        root.dpkg("-i", old)
        for command in (["longhaul", "--version"], ["longhaul", "man", "--out", "/tmp"]):
            root.run(*command)
        run("find", root.path / "tmp", "-name", "longhaul*.1", "-delete")
        sample = root.path / "etc/longhaul/longhaul.toml"
        sample.write_text(FILE)
        root.run("longhaul", "check")
        root.dpkg("-i", new)
        assert sample.read_text() == FILE, "the upgrade has changed longhaul.toml"
        size = 64 << 20 if architecture == "amd64" else 1 << 20
        said = upgrades_under_load(root, lambda older: root.dpkg("-i", old if older else new), size)
        root.dpkg("--unpack", old)
        assert "half-configured" in root.run("dpkg", "-s", "longhaul") or "unpacked" in root.run("dpkg", "-s", "longhaul")
        root.run("longhaul", "check")
        root.dpkg("-i", new)
        root.dpkg("-i", new)
        foreign = root.path / "etc/longhaul/mine"
        foreign.write_text("mine")
        root.dpkg("-r", "longhaul")
        assert sample.read_text() == FILE and not (root.path / "usr/bin/longhaul").exists()
        purged = root.dpkg("-P", "longhaul")
        assert foreign.read_text() == "mine" and not sample.exists() and "kept, because" in purged, purged
        foreign.unlink()
        foreign.parent.rmdir()
        assert not root.changed(before), root.changed(before)
        kept_tuning(root, new)
        return f"{said}; nothing left"


def kept_tuning(root, package):
    """The old values of sysctls that a removal could not restore stay, and a purge says so."""
    root.dpkg("-i", package)
    tuned = root.path / "var/lib/longhaul/tune.json"
    tuned.parent.mkdir()
    tuned.write_text("no JSON")
    assert "keep what longhaul tune has set" in root.dpkg("-r", "longhaul")
    said = root.dpkg("-P", "longhaul")
    assert tuned.exists() and "old values of sysctls: /var/lib/longhaul/tune.json" in said, said


def only_looks(log):
    """Whether nothing that was asked of systemd starts or stops a unit."""
    return all(line.startswith(("daemon-reload", "list-units ")) for line in log.read_text().splitlines())


def scripts(suite):
    """What the package asks of systemd: nothing is started or restarted, and a removal stops the daemon."""
    with Root(suite) as root, tempfile.TemporaryDirectory() as folder:
        log = root.with_systemd()
        root.dpkg("-i", old_deb(Path(folder)))
        assert log.read_text() == "daemon-reload\n", log.read_text()
        log.unlink()
        said = root.dpkg("-i", deb())
        assert "still runs the old program" in said and only_looks(log), log.read_text()
        log.unlink()
        root.dpkg("-r", "longhaul")
        assert "stop longhaul.service\ndisable longhaul.service\n" in log.read_text(), log.read_text()


def enabled(name):
    """In an image, where systemd does not run, a purge leaves no link to a unit that was enabled."""
    with Root(name) as root:
        before = root.files()
        root.dpkg("-i", deb())
        root.run("systemctl", "enable", "longhaul.service", "longhaul@a.service", "longhaul@b.service")
        root.dpkg("-P", "longhaul")
        assert not root.changed(before), root.changed(before)


def refused(suite):
    """A damaged package and a full disk leave the old program as it was."""
    with Root(suite, "100M") as root, tempfile.TemporaryDirectory() as folder:
        root.dpkg("-i", deb())
        program = root.path / "usr/bin/longhaul"
        before = program.read_bytes()
        damaged = Path(folder, "damaged.deb")
        content = bytearray(deb().read_bytes())
        content[len(content) // 2] ^= 1
        damaged.write_bytes(content)
        root.dpkg("-i", damaged, fails=True)
        assert program.read_bytes() == before
        shutil.copy(deb(), root.scratch / "package.deb")
        with open(root.path / "fill", "wb") as fill:
            try:
                while True:
                    fill.write(bytes(1 << 16))
                    fill.flush()
            except OSError:
                pass
        run("mount", "--bind", root.scratch, root.path / "mnt")
        said = root.run("dpkg", "-i", "/mnt/package.deb", fails=True)
        assert "No space left on device" in said, said
        assert program.read_bytes() == before
        root.run("longhaul", "--version")
        (root.path / "fill").unlink()
        root.run("dpkg", "-i", "/mnt/package.deb")
        root.run("longhaul", "--version")


def old_systemd(suite):
    """The unit for systemd before 239, by the systemd of a Ubuntu that has such a one."""
    with Root(suite) as root:
        root.dpkg("-i", deb())
        shutil.copy(root.path / "usr/share/longhaul/systemd-219/longhaul.service", root.path / "etc/systemd/system")
        # This systemd looks for its cgroup, which a chroot lacks.
        cgroups = root.path / "sys/fs/cgroup"
        cgroups.mkdir(parents=True)
        run("mount", "-t", "tmpfs", "tmpfs", cgroups)
        (cgroups / "systemd").mkdir()
        run("mount", "-t", "cgroup", "-o", "none,name=systemd", "cgroup", cgroups / "systemd")
        # It asks man for the page that Documentation= names.
        shutil.copy(root.path / "bin/true", root.path / "usr/bin/man")
        said = root.run("systemd-analyze", "verify", "/etc/systemd/system/longhaul.service")
        # It ignores the protections that it does not know, and says so.
        other = [line for line in said.splitlines() if "longhaul" in line and not re.search("Unknown lvalue|ignoring: strict", line)]
        assert not other, said
        for line in re.findall("^(?:systemd-sysusers|useradd).*", (REPOSITORY / "docs/install.md").read_text(), re.M):
            if (root.path / "bin/systemd-sysusers").exists() == line.startswith("systemd-sysusers"):
                root.run("sh", "-c", line)
        assert re.search("^longhaul:", (root.path / "etc/passwd").read_text(), re.M)
        return root.run("systemd-analyze", "--version").splitlines()[0]


def install_page(suite):
    """The commands of docs/install.md as they stand there, from the signature to the first tunnel: scripts/systemd/install_page.py."""
    with Root(f"{suite}-systemd") as root, tempfile.TemporaryDirectory() as folder:
        download = Path(folder, "download")
        download.mkdir()
        for path in [*PACKAGES.glob(f"longhaul*{VERSION}*amd64.deb"), *PACKAGES.glob(f"longhaul*{VERSION}*x86_64*")]:
            shutil.copy(path, download)
        run("sh", "-c", "sha256sum * >SHA256SUMS", cwd=download)
        run("minisign", "-G", "-W", "-s", Path(folder, "key"), "-p", download / "minisign.pub")
        run("minisign", "-S", "-s", Path(folder, "key"), "-t", f"longhaul {VERSION}", "-m", download / "SHA256SUMS")
        # The root has no minisign.
        verify = [line for line in install_commands() if line.startswith(("minisign", "sha256sum"))]
        said = [run("sh", "-c", line, cwd=download) for line in verify]
        assert len(said) == 2 and f"Trusted comment: longhaul {VERSION}" in said[0] and f"{deb().name}: OK" in said[1], said
        shutil.copytree(download, root.path / "root/download")
        (root.path / "root/commands").write_text("\n".join(line for line in install_commands() if line not in verify))
        inside = ["python3", "-B", "/root/systemd/install_page.py"]
        shown = run(REPOSITORY / "scripts/test-systemd", "--root", root.path, *inside).strip()
        assert re.fullmatch(r"\d+ commands of docs/install.md, and a transfer", shown), shown
        changed = bytearray((download / deb().name).read_bytes())
        changed[len(changed) // 2] ^= 1
        (download / deb().name).write_bytes(changed)
        run("sh", "-c", verify[1], cwd=download, fails=True)
        run("minisign", "-G", "-W", "-f", "-s", Path(folder, "other"), "-p", download / "minisign.pub")
        run("sh", "-c", verify[0], cwd=download, fails=True)
        return shown


def install_commands():
    """The commands of the section "Install a package", without those of rpm."""
    page = (REPOSITORY / "docs/install.md").read_text()
    section = page[page.index("\n## Install a package\n") : page.index("\nWithout dpkg and rpm")]
    lines = [line.partition("#")[0].strip() for block in re.findall(r"```\n(.*?)```", section, re.S) for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("rpm ")]


def ansible(suite):
    """The role of packaging/ansible, with the Ansible and the systemd of a Debian: scripts/systemd/ansible.py."""
    with Root(f"{suite}-systemd") as root, tempfile.TemporaryDirectory() as folder:
        shutil.copytree(REPOSITORY / "packaging/ansible", root.path / "root/ansible")
        shutil.copy(old_deb(Path(folder)), root.path / "root/old.deb")
        shutil.copy(deb(), root.path / "root/new.deb")
        inside = ["python3", "-B", "/root/systemd/ansible.py"]
        said = run(REPOSITORY / "scripts/test-systemd", "--root", root.path, *inside).strip()
        assert said.startswith("ansible-playbook [core "), said
        return said
