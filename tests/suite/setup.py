"""What a run needs before and beside its tests: programs of the system, style and types, the programs of Kubernetes, other Pythons."""
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from .stages import Stages

# Each program that the tests start, and the package of Debian and Ubuntu that has it.
PROGRAMS = {
    "dockerd": "docker.io", "containerd": "containerd", "podman": "podman", "conmon": "conmon", "nft": "nftables", "ip": "iproute2",
    "ssh": "openssh-client", "sshd": "openssh-server", "sftp": "openssh-sftp-server", "rsync": "rsync", "tmux": "tmux", "less": "less",
    "busybox": "busybox-static", "cc": "gcc", "chromium-headless-shell": "chromium-headless-shell", "prometheus": "prometheus", "promtool": "prometheus",
    "prometheus-node-exporter": "prometheus-node-exporter", "systemd-analyze": "systemd", "runc": "runc", "iptables": "iptables",
    "docker-registry": "docker-registry", "jq": "jq", "curl": "curl", "script": "bsdutils", "pg_dump": "postgresql-client",
    "mkfs.ext4": "e2fsprogs", "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu", "qemu-aarch64-static": "qemu-user-static",
}  # fmt: skip
FILES = {
    "/usr/lib/postgresql": "postgresql", "/usr/lib/cni/bridge": "containernetworking-plugins", "/usr/include/stdio.h": "libc6-dev",
    "/usr/aarch64-linux-gnu/include/stdio.h": "libc6-dev-arm64-cross", "/usr/share/doc/python3-venv": "python3-venv",
}  # fmt: skip
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
PYTHONS = ("3.11", "3.12", "3.13", "3.14")  # that are supported
PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
APT = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}


def missing_packages() -> list[str]:
    found = [package for program, package in PROGRAMS.items() if shutil.which(program, path=PATH) is None]
    return sorted({*found, *(package for path, package in FILES.items() if not Path(path).exists())})


def install_system_parts() -> None:
    """As root, by apt. Anywhere else tests that lack a part are left out, and say so."""
    missing = missing_packages()
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"not installed, as that takes root and apt-get: {' '.join(missing)}", file=sys.stderr)
        return
    print(f"installing {' '.join(missing)}", file=sys.stderr, flush=True)
    for words in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
        done = subprocess.run(["apt-get", "-qq", *words], env=APT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"apt-get {words[0]} failed: {done.stderr.strip()[-500:]}", file=sys.stderr)


class Beside:
    """A few commands, one after the other, beside the tests; what they print is shown when they are done."""

    def __init__(self, stages: Stages, name: str, commands: list[list[str]]) -> None:
        self._stages, self._name, self._commands = stages, name, commands
        self._fine, self._printed = True, ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def is_fine(self) -> bool:
        self._thread.join()
        if self._printed:
            print(f"\n== {self._name}\n{self._printed}", file=sys.stderr)
        return self._fine

    def _run(self) -> None:
        began = time.monotonic()
        for command in self._commands:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            self._fine &= done.returncode == 0
            self._printed += done.stdout if done.returncode else ""
        self._stages.note(f"{self._name} (beside the others)", time.monotonic() - began)


def start_style(stages: Stages, *, types: bool) -> Beside:
    """Types take as long as all fast tests together."""
    commands = [[sys.executable, "-m", "ruff", "check", "src", "tests", "bench", "docs"], [sys.executable, "-m", "mypy"]]
    return Beside(stages, "style and types", commands) if types else Beside(stages, "style", commands[:1])


def start_kubernetes_build(stages: Stages) -> Beside | None:
    """Where they are built already this takes a moment. Tests that need them wait for it; all others run meanwhile."""
    if os.geteuid() != 0:
        return None
    log = Path("build/kube-parts.log")
    build = f"exec nice -n 5 {sys.executable!r} tests/kube/parts.py >{log} 2>&1"
    return Beside(stages, "building Kubernetes", [["sh", "-c", build]])


def other_pythons() -> dict[str, str]:
    """Supported ones that start, other than this, by version. pyenv has programs for versions that are not switched on: they do not start."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = {number: find_python(number) for number in PYTHONS if number != here}
    return {number: python for number, python in found.items() if python is not None}


def find_python(number: str) -> str | None:
    candidates = [f"python{number}", *map(str, sorted(PYENV.glob(f"{number}.*/bin/python")))]
    return next((python for python in candidates if shutil.which(python) and starts(python)), None)


def starts(python: str) -> bool:
    return subprocess.run([python, "-c", "import ssl, sqlite3, ctypes"], capture_output=True, check=False).returncode == 0
