"""The rpm, in a Debian that has rpm's database."""

import re
import tempfile
from pathlib import Path

from debian import only_looks, upgrades_under_load
from roots import FILE, OLD_VERSION, REPOSITORY, RPM, TARBALL, Root, run


def rpm(suite):
    """Debian's user land with rpm's database in it: rpm of this machine installs into it, and runs the scripts there."""
    with Root(suite) as root, tempfile.TemporaryDirectory() as folder:
        # The old package has the files of the tarball: target/package/root may be another machine's.
        old, files = Path(folder, "old.rpm"), Path(folder, "target/package/root")
        files.mkdir(parents=True)
        run("tar", "-C", files, "-xzf", TARBALL)
        for name in ("Cargo.toml", "crates", "packaging"):
            Path(folder, name).symlink_to(REPOSITORY / name)
        generate = [REPOSITORY / "target/tools/bin/cargo-generate-rpm", "generate-rpm", "-p", "crates/longhaul", "--auto-req", "disabled"]
        run(*generate, "--arch", "x86_64", "-s", f'version = "{OLD_VERSION}"', "-o", old, cwd=folder)
        base = ["rpm", "--root", root.path, "--nodeps", "--dbpath", "/var/lib/rpm"]
        requires = run("rpm", "-qp", "--requires", RPM)
        assert re.search(r"^glibc >= 2\.17$", requires, re.M), requires
        modes = {line.split()[-1]: line.split()[0] for line in run("rpm", "-qplv", RPM).splitlines()}
        assert modes["/usr/bin/longhaul"] == "-rwxr-xr-x" and modes["/etc/longhaul/longhaul.toml"] == "-rw-r--r--"
        assert run("rpm", "-qpc", RPM).split() == ["/etc/longhaul/longhaul.toml"]
        before, log = root.files(), root.with_systemd()
        run(*base, "-i", old)
        root.run("longhaul", "--version")
        (root.path / "etc/longhaul/longhaul.toml").write_text(FILE)
        said = run(*base, "-U", RPM)
        assert "still runs the old program" in said and only_looks(log), log.read_text()
        said = upgrades_under_load(root, lambda older: run(*base, "-U", "--oldpackage", "--replacepkgs", old if older else RPM))
        assert (root.path / "etc/longhaul/longhaul.toml").read_text() == FILE
        run(*base, "-e", "longhaul")
        assert "stop longhaul.service\ndisable longhaul.service\n" in log.read_text(), log.read_text()
        kept = {"/etc/longhaul", "/etc/longhaul/longhaul.toml.rpmsave"}
        # Folders that belong to other packages of RHEL, and that this Debian lacks.
        kept |= {f"/usr/share/{name}" for name in ("zsh", "zsh/site-functions", "zsh/vendor-completions", "fish", "fish/vendor_completions.d")}
        kept |= {"/usr/lib/sysctl.d", "/usr/lib/modules-load.d"}
        ours = {"/usr/bin/systemctl", "/systemctl.log"}
        left = root.changed(before) - kept - ours
        assert not left, left
        return said
