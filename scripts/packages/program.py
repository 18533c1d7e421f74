"""The files of the packages, and the program in them."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from roots import PACKAGES, REPOSITORY, RPM, TARBALL, VERSION, deb, run

# The program's size, and the oldest glibc whose symbols it may ask for: RHEL 7, and RHEL 9 on POWER.
PROGRAM_LIMIT = 10_000_000
GLIBC = {"amd64": (2, 17), "arm64": (2, 17), "ppc64el": (2, 34)}
# What lintian and rpmlint find, and why it stays.
EXCEPTIONS = {
    "wrong-name-for-upstream-changelog": "the documents link to CHANGELOG.md",
    "command-with-path-in-maintainer-script": "the program of this package, whatever PATH has first",
    "maintainer-script-calls-systemctl": "deb-systemd-helper is Debian's own; the scripts serve rpm, too",
    "initial-upload-closes-no-bugs": "this is no upload to Debian",
    "no-signature": "SHA256SUMS is signed, not each package",
    "no-packager-tag": "cargo-generate-rpm has no key for it",
    "no-group-tag": "RHEL and SLES have given groups up",
    "no-changelogname-tag": "CHANGELOG.md is in the package",
    "no-buildhost-tag": "the name of a host would make each build another",
    "no-documentation": "the debug symbols",
    "unstripped-binary-or-object": "the debug symbols",
    "shared-library-without-dependency-information": "the debug symbols",
    "only-non-binary-in-usr-lib": "units, sysctls and the like belong there",
    "no-manual-page-for-binary": "longhaul.1.gz is in the package; this rpmlint looks for other suffixes",
    "manpage-not-compressed": "gzip is what RHEL uses",
    "invalid-license": "these are SPDX's names, as Fedora demands; this rpmlint has older ones",
    "script-not-executable": "a recipe; docs/many-relays.md installs it with its mode",
    "non-executable-script": "the same",
    "files-duplicate": "Debian's zsh and RHEL's look in different folders",
}


def same_files():
    """The three packages have the same files."""
    in_tarball = {name.lstrip(".") for name in run("tar", "-tzf", TARBALL).split() if not name.endswith("/")}
    in_deb = {line.split()[-1].lstrip(".") for line in run("dpkg-deb", "-c", deb()).splitlines() if line[0] != "d"}
    in_rpm = {line.split()[-1] for line in run("rpm", "-qplv", RPM).splitlines() if line[0] != "d"}
    # Debian's own.
    in_deb -= {"/usr/share/doc/longhaul/changelog.Debian.gz", "/usr/share/doc/longhaul/copyright"}
    assert in_tarball == in_deb == in_rpm, f"{in_tarball ^ in_deb} {in_tarball ^ in_rpm}"
    return f"{len(in_deb)} files"


def linted():
    """What lintian and rpmlint say, but for what EXCEPTIONS explains."""
    debs, rpms = sorted(PACKAGES.glob(f"longhaul*_{VERSION}-1_amd64.deb")), sorted(PACKAGES.glob(f"longhaul*-{VERSION}-1.x86_64.rpm"))
    said = run("lintian", "--allow-root", "--fail-on", "none", *debs)
    # Exits with 64 where it finds something.
    by_rpmlint = subprocess.run(["rpmlint", *rpms], stdout=subprocess.PIPE, text=True, check=False).stdout
    assert f"{len(rpms)} packages and " in by_rpmlint, by_rpmlint
    said += by_rpmlint
    # `W: PACKAGE: TAG ..` of lintian, `PACKAGE: W: TAG ..` of rpmlint.
    found = [re.sub(r"^(?:[EW]: \S+: |\S+: [EW]: )", "", line) for line in said.splitlines() if re.search(r"(^|: )[EW]: ", line)]
    unexplained = [line for line in found if line.split()[0] not in EXCEPTIONS]
    assert found and not unexplained, unexplained
    return f"{len(found)} explained"


def program(architecture):
    """The program of the deb: libraries, glibc's versions, hardening, size, and no path of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        run("dpkg-deb", "-x", deb(architecture), folder)
        binary = Path(folder, "usr/bin/longhaul")
        versions = [tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", run("readelf", "--wide", "--dyn-syms", binary))]
        assert max(versions) <= GLIBC[architecture], max(versions)
        dynamic = run("readelf", "--wide", "-d", "-h", "-l", binary)
        assert "DYN (" in dynamic and "GNU_RELRO" in dynamic and "BIND_NOW" in dynamic and "RPATH" not in dynamic and "RUNPATH" not in dynamic
        size = binary.stat().st_size
        assert size <= PROGRAM_LIMIT, size
        run("dpkg-deb", "-x", PACKAGES / f"longhaul-dbgsym_{VERSION}-1_{architecture}.deb", folder)
        build = re.search(r"Build ID: (\S+)", run("readelf", "-n", binary))[1]
        symbols = Path(folder, f"usr/lib/debug/.build-id/{build[:2]}/{build[2:]}.debug")
        for file in (binary, symbols):
            content = file.read_bytes()
            for path in (REPOSITORY, Path.home()):
                assert str(path).encode() + b"/" not in content, f"{file} has the path {path}"
        if architecture == "amd64":
            command = ["gdb", "-batch", "-iex", f"set debug-file-directory {folder}/usr/lib/debug", "-ex", "info functions splice"]
            shown = run(*command, binary)
            assert "File crates/longhaul-sys/src/" in shown or "File crates/longhaul-relay/src/" in shown, shown
        return f"{architecture}: {size} bytes, glibc {'.'.join(map(str, max(versions)))}"


def reproducible():
    """Another path, user, home, time zone and umask, at a later time: the same bytes."""
    assert not run("git", "status", "--porcelain", cwd=REPOSITORY), "commit first: the other build is of a commit"
    with tempfile.TemporaryDirectory() as folder:
        home, tree, rust = Path(folder, "home"), Path(folder, "an-other-place"), Path(folder, "rust")
        own = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
        toolchain = re.search(r"TOOLCHAIN=(\S+)", (REPOSITORY / "scripts/package").read_text())[1]
        # Its files get another owner, so they are no links to this repository's.
        run("git", "clone", "-q", "--no-hardlinks", REPOSITORY, tree)
        for name in ("registry/index", "registry/cache"):
            shutil.copytree(own / name, home / ".cargo" / name)
        (tree / "target/tools").mkdir(parents=True)
        rust.mkdir()
        run("chown", "-R", "4321:4321", folder)
        Path(folder).chmod(0o755)
        run("mount", "--bind", "-o", "ro", run("rustc", f"+{toolchain}", "--print", "sysroot").strip(), rust)
        run("mount", "--bind", "-o", "ro", REPOSITORY / "target/tools", tree / "target/tools")
        try:
            environment = {"HOME": home, "PATH": f"{rust}/bin:{os.defpath}:/usr/sbin:/usr/bin", "TZ": "Asia/Tokyo", "CARGO_NET_OFFLINE": "true"}
            other = ["setpriv", "--reuid=4321", "--regid=4321", "--clear-groups", "sh", "-c", "umask 077; exec scripts/package deb rpm tarball"]
            run(*other, cwd=tree, env=environment)
            names = [path.name for path in sorted((tree / "target/package").glob(f"*{VERSION}*"))]
            for name in names:
                run("diffoscope", "--max-report-size", "20000", PACKAGES / name, tree / "target/package" / name)
        finally:
            run("umount", rust)
            run("umount", tree / "target/tools")
    assert len(names) == 7, names
    return f"{len(names)} files, the same as of another path, user and time"


def release():
    """`make release` refuses what is no release, before it builds anything."""
    with tempfile.TemporaryDirectory() as folder:
        tree, key = Path(folder, "tree"), Path(folder, "minisign.key")
        run("git", "clone", "-q", REPOSITORY, tree)
        git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", "-C", tree]

        def refused(why, use=key):
            said = run(tree / "scripts/release", use, fails=True)
            assert re.search(why, said), said

        def commit(path, change):
            (tree / path).write_text(change((tree / path).read_text()))
            run(*git, "commit", "--allow-empty", "-qam", path)

        # Whether or not this commit is a release.
        run(*git, "rm", "-q", "--ignore-unmatch", "packaging/minisign.pub")
        commit("interface/config.txt", lambda text: re.sub(r"^\S+ ", "next ", text))
        commit("CHANGELOG.md", lambda text: re.sub(r"(?m)^## \[.*", "## [Unreleased]", text))
        refused("newest version of CHANGELOG.md is none")
        commit("CHANGELOG.md", lambda text: text.replace("## [Unreleased]", f"## [{VERSION}] - 2026-01-02", 1))
        (tree / "mine").touch()
        refused("the tree differs from its commit")
        (tree / "mine").unlink()
        refused("interface/ has names without a release")
        run("sh", "-c", f"sed -i 's/^next /{VERSION} /' interface/*.txt", cwd=tree)
        run(*git, "commit", "-qam", "interface")
        run(*git, "tag", "v9.9.9")
        refused(rf"no tag v{VERSION}; it has: v9\.9\.9")
        run(*git, "tag", "-f", f"v{VERSION}")
        refused("is no file with minisign's secret key")
        run("minisign", "-G", "-W", "-s", key, "-p", Path(folder, "minisign.pub"))
        shutil.copy(key, tree / ".git/minisign.key")
        refused("the secret key is inside the tree", tree / ".git/minisign.key")
        refused("there is no packaging/minisign.pub")
        run("minisign", "-G", "-W", "-s", Path(folder, "other"), "-p", tree / "packaging/minisign.pub")
        run(*git, "add", "packaging/minisign.pub")
        run(*git, "commit", "-qm", "another key")
        run(*git, "tag", "-f", f"v{VERSION}")
        refused("minisign.pub is not the public key of", os.path.relpath(key, tree))
        commit("packaging/helm/longhaul/Chart.yaml", lambda text: text.replace(VERSION, "9.9.9"))
        run(*git, "tag", "-f", f"v{VERSION}")
        refused("Chart.yaml has another version")
    return "each refused with a line"
