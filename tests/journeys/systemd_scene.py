"""A systemd of the test's own: the first process of its namespaces, with folders of its own where it and a service write, and no other units.

The network is the machine's, and so are all files that nobody changes. What it started is gone with it.
"""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench.ports import free_port
from bench.server import ROOT

from gpufairy.client import Fairy
from waits import until

PROGRAM = next((path for path in map(Path, ("/usr/lib/systemd/systemd", "/lib/systemd/systemd")) if path.exists()), None)
NAMESPACES = ("--mount", "--pid", "--cgroup", "--ipc", "--uts")
# Of the units that a machine has, those without which no service starts; none that looks after the machine itself.
UNITS = "basic sysinit multi-user network network-online shutdown umount sockets timers paths slices local-fs".split()
JOURNAL = ("systemd-journald.service", "systemd-journald.socket")  # not the one that puts /dev/log into the machine's own /dev
# Generators make units of the machine's init scripts and disks. Folders above this Python may be root's alone, and the service has a user.
BOOT = """\
set -e
mount --make-rprivate /
mount -t tmpfs none /run
mkdir -p /run/bin /run/units /run/none /run/etc /run/etc.work /run/root /run/root.work /run/lock
cp {folder}/fairy /run/bin/fairy
for unit in {units}; do cp /usr/lib/systemd/system/$unit /run/units/; done
mount -t overlay none -o lowerdir=/etc,upperdir=/run/etc,workdir=/run/etc.work /etc
mount -t overlay none -o lowerdir=/root,upperdir=/run/root,workdir=/run/root.work /root
chmod 755 /root
for place in /etc/systemd/system /var/lib /var/log; do mount -t tmpfs none $place; done
mount --bind /run/units /usr/lib/systemd/system
mount --bind /run/none /usr/lib/systemd/system-generators
mount -t proc proc /proc
mount -t cgroup2 none /sys/fs/cgroup
exec env -i container=fairy-test PATH=$PATH {program} --unit=multi-user.target --log-target=null --show-status=no
"""
FAIRY = "#!/bin/sh\nPYTHONPATH={source} exec {python} -P -m gpufairy \"$@\"\n"
START_S, COMMAND_S = 30.0, 90.0


class OwnSystemd:
    def __init__(self, pid: int) -> None:
        self.pid, self.port, self.ssh_port = pid, free_port(), free_port()

    @property
    def root(self) -> Path:
        """The files as the service sees them."""
        return Path(f"/proc/{self.pid}/root")

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        enter = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--cgroup", "--ipc", "--uts", "--root", "--wd=/"]
        env = {"PATH": os.environ["PATH"], "HOME": "/root", "FAIRY_COMMAND": "/run/bin/fairy", **env}
        return subprocess.run([*enter, *command], env=env, capture_output=True, text=True, timeout=COMMAND_S, check=False)

    def done(self, *command: str) -> str:
        made = self.run(*command)
        assert made.returncode == 0, f"{command}: {made.stdout} {made.stderr}"
        return made.stdout

    def shows(self, unit: str, what: str) -> str:
        return self.done("systemctl", "show", "--property", what, "--value", unit).strip()

    def serves(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2):
                return True
        except OSError:
            return False

    def until_serves(self) -> None:
        until(self.serves, f"the service to serve: {self.run('journalctl', '--no-pager', '-n', '40').stdout}", START_S)

    def client(self) -> Fairy:
        """As the one whom the service runs as, who is its admin."""
        told = tomllib.loads((self.root / "var/lib/gpufairy/.config/gpufairy/config.toml").read_text())
        return Fairy(told["url"], told["token"])

    def birth_of(self, pid: int) -> str:
        """Of a process by its number in there: a second one of that number has another."""
        return (self.root / "proc" / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]


@contextmanager
def own_systemd(folder: Path) -> Iterator[OwnSystemd]:
    hierarchy = needed()
    fairy = folder / "fairy"
    fairy.write_text(FAIRY.format(source=ROOT / "src", python=sys.executable))
    fairy.chmod(0o755)
    units = " ".join([*(f"{name}.target" for name in UNITS), *JOURNAL])
    (folder / "boot.sh").write_text(BOOT.format(folder=folder, units=units, program=PROGRAM))
    group = hierarchy / f"fairy-test-{os.getpid()}"
    group.mkdir()
    with (folder / "log").open("wb") as log:
        entered = f"echo $$ > {group}/cgroup.procs; exec unshare {' '.join(NAMESPACES)} --fork --kill-child sh {folder}/boot.sh"
        started = subprocess.Popen(["sh", "-c", entered], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        pid = until(lambda: first_process(started), lambda: f"systemd to begin: {(folder / 'log').read_text()}", START_S)
        systemd = OwnSystemd(pid)
        until(lambda: systemd.run("systemctl", "is-system-running").stdout.strip() == "running", "systemd to be up", START_S)
        systemd.done("systemctl", "start", *JOURNAL)
        yield systemd
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)  # unshare's child goes with it, and all that this one had started
        started.wait()
        until(lambda: removed(group), f"{group} to be left by all")


def needed() -> Path:
    """Where the cgroup hierarchy is that it gets a branch of."""
    with open("/proc/self/mounts") as mounts:
        found = next((Path(line.split()[1]) for line in mounts if line.split()[2] == "cgroup2"), None)
    lacks = [
        *([] if os.geteuid() == 0 else ["the rights of root"]),
        *(f"{name}: apt-get install {package}" for name, package in {"nsenter": "util-linux", "systemctl": "systemd"}.items() if shutil.which(name) is None),
        *([] if PROGRAM is not None else ["systemd: apt-get install systemd"]),
        *([] if found is not None and os.access(found, os.W_OK) else ["a cgroup2 hierarchy to write in"]),
    ]
    if not lacks and subprocess.run(["unshare", *NAMESPACES, "--fork", "mount", "-t", "tmpfs", "none", "/run"], check=False).returncode != 0:
        lacks = ["the right to make namespaces and mounts"]
    if lacks or found is None:
        pytest.skip(f"a systemd of its own needs {'; '.join(lacks)}")
    return found


def first_process(unshare: "subprocess.Popen[bytes]") -> int | None:
    """Of the namespace, once it is systemd and no longer the shell that made its folders."""
    assert unshare.poll() is None, "systemd ended at once"
    told = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children").read_text().split()
    with contextlib.suppress(FileNotFoundError):
        if told and Path(f"/proc/{told[0]}/comm").read_text().strip() == "systemd":
            return int(told[0])
    return None


def removed(group: Path) -> bool:
    for folder in sorted((one for one in group.rglob("*") if one.is_dir()), reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()
