"""The hosts of a lab, for benches that start programs of their own there."""

import os
import re
import subprocess
import tempfile
import time


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    return str(value) if isinstance(value, int) else f'"{value}"'


def scenario_file(text):
    """Writes a scenario to a file of its own. Returns its name."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
        file.write(text)
    return file.name


class Hosts:
    """The hosts of the lab that the program `longhaul` builds for the scenario `file`. The lab, its programs and the file end with the
    block."""

    def __init__(self, longhaul, file):
        self.file, self.started, self.enter = file, [], {}
        # What the lab says at its end: segments that the link carried and dropped, and whether it was late.
        self.seen = ""
        command = ["setpriv", "--pdeathsig", "TERM", longhaul, "lab", "up", file]
        self.lab = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in self.lab.stdout:
            if found := re.match(r"  (A|near|far|B) +(nsenter .*)", line):
                self.enter[found[1]] = found[2].split()
            if line.startswith("Try"):
                break

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [*self.started, self.lab]:
            process.terminate()
        self.seen = self.lab.stdout.read()
        self.lab.wait()
        os.unlink(self.file)

    def was_disturbed(self):
        return "too busy" in self.seen

    def drops(self):
        """Returns for each direction of the link, out and back: the segments that came to its loss, and those that it dropped."""
        found = re.findall(r"(\d+) segments(?:.*?the link's loss dropped (\d+) of (\d+))?", self.seen)
        return [(int(entered or all_), int(lost or 0)) for all_, lost, entered in found]

    def start(self, host, *command, stdout=subprocess.DEVNULL, **more):
        command = [*self.enter[host], *command]
        self.started.append(subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL, text=True, **more))
        return self.started[-1]

    def run(self, host, *command):
        return subprocess.run([*self.enter[host], *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)

    def set_sysctls(self, world):
        """Sets the sysctls of a world. Call it before the first program that they concern."""
        for host, settings in world.sysctls.items():
            for setting in settings:
                done = self.run(host, "sysctl", "-qw", setting)
                if done.returncode:
                    raise SystemExit(f"{world.name}: {setting}: {done.stderr}")

    def start_beside(self, world):
        """Starts the traffic of others in a world, if there is some."""
        if world.beside:
            self.start("far", "iperf3", "-s", "-p", "7009")
            time.sleep(1)
            self.start(*world.beside)
            time.sleep(4)
