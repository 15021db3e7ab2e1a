"""Container engines of the tests' own: a real dockerd and a real Podman service, each with folders and networks that no other has."""
import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.parse
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from gpufairy.engines.tools import build_tools
from images import busybox_image_tar, scratch_image_tar
from waits import until

START_S = 30
LOOKS = 5


class UnixHttp(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(60)
            made.connect(str(self._path))
        except OSError:
            made.close()
            raise
        self.sock = made


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Over all workers: a Docker that starts makes the chains of its firewall anew, and another that does so just then gives up."""
    with open(Path(tempfile.gettempdir()) / "fairy-tests-daemon.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class RealDaemon:
    """Started, stopped and asked directly, past the engine under test."""

    def __init__(self, name: str, folder: Path, command: list[str], env: dict[str, str] | None = None) -> None:
        self.name, self.folder, self.socket = name, folder, folder / "socket"
        self._command, self._env = command, {**os.environ, **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.was_killed = False

    def start(self) -> None:
        with one_at_a_time():
            self._start()

    def _start(self) -> None:
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._env, cwd=self.folder, start_new_session=True)
        until(self.answers, lambda: f"{self.name} to answer; see {self.folder}/log:\n{(self.folder / 'log').read_text()[-2000:]}", START_S)

    def answers(self) -> bool:
        assert self._process is None or self._process.poll() is None, (self.folder / "log").read_text()[-3000:]
        with contextlib.suppress(OSError):
            return self.ask("GET", "/_ping") is not None
        return False

    def ask(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> Any:
        """The answer, read as JSON if it is; raises for a no."""
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        for _ in range(LOOKS):
            status, text = self._ask(method, path, content, kind)
            if method != "GET" or status != 500 or b"no such process" not in text:
                break  # else: Podman looked at a container that ended just then, and gave up on all of them
        assert status < 400, f"{method} {path}: {status} {text[:500]!r}"
        try:
            return json.loads(text)
        except ValueError:
            return text

    def _ask(self, method: str, path: str, content: bytes | None, kind: str) -> tuple[int, bytes]:
        connection = UnixHttp(self.socket)
        connection.request(method, path, content, {"Content-Type": kind} if content is not None else {})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text

    def containers(self, **labels: str) -> list[dict[str, Any]]:
        filters = urllib.parse.quote(json.dumps({"label": [f"{name}={value}" for name, value in labels.items()]}))
        return self.ask("GET", f"/containers/json?all=1&filters={filters}")

    def container(self, container_id: str) -> dict[str, Any]:
        return self.ask("GET", f"/containers/{container_id}/json")

    def load(self, archive: bytes) -> None:
        self.ask("POST", "/images/load", archive, kind="application/x-tar")

    def clean(self, label: str = "gpufairy.role") -> None:
        for one in self.ask("GET", f"/containers/json?all=1&filters={urllib.parse.quote(json.dumps({'label': [label]}))}"):
            with contextlib.suppress(AssertionError):  # gone by itself
                self.ask("DELETE", f"/containers/{one['Id']}?force=1&v=1")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: int) -> None:
        assert self._process is not None
        self.was_killed = self.was_killed or number == signal.SIGKILL
        self._process.send_signal(number)
        self._process.wait(START_S)
        self._process = None

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.signal(signal.SIGTERM)

    def remove(self) -> None:
        """All that it left: what still runs, then mounts, or its folder cannot go."""
        for pid in left_over(self.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            if line.split()[1].startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", line.split()[1]], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


class RealDocker(RealDaemon):
    """With a containerd of its own that outlives it, as on any machine where both are services."""

    _containerd: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._containerd is None:
            (self.folder / "containerd.toml").write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
            command = ["containerd", "--config", f"{self.folder}/containerd.toml", "--root", f"{self.folder}/containerd", "--state", f"{self.folder}/tasks"]
            with open(self.folder / "containerd.log", "ab") as log:
                self._containerd = subprocess.Popen([*command, "--address", f"{self.folder}/containerd.sock"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            until((self.folder / "containerd.sock").exists, "containerd", START_S)
        super().start()

    def stop(self) -> None:
        super().stop()
        if self._containerd is not None:
            self._containerd.terminate()
            self._containerd.wait(START_S)
            self._containerd = None


def left_over(folder: Path) -> list[int]:
    """Processes that a daemon with that folder has started: those who watch over containers, and the containers' own first ones."""
    watching, children = [], []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{folder}/".encode() in (path / "cmdline").read_bytes():
                watching.append(int(path.name))
                children += [int(pid) for task in (path / "task").iterdir() for pid in (task / "children").read_text().split()]
    return [*watching, *children]


def needs(*programs: str, package: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("a container engine of our own needs root")
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program}: apt-get install {package}")


def make_docker(folder: Path, *more: str) -> RealDaemon:
    needs("dockerd", "containerd", "nft", package="docker.io nftables")
    pool = f"base=10.{100 + os.getpid() % 100}.0.0/16,size=24"
    command = ["dockerd", "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid", "-H", f"unix://{folder}/socket"]
    return RealDocker("docker", folder, [*command, "--containerd", f"{folder}/containerd.sock", "--bridge", "none", "--default-address-pool", pool, *more])


def make_podman(folder: Path) -> RealDaemon:
    needs("podman", "conmon", "nft", package="podman nftables")
    (folder / "net").mkdir()
    # crun refuses a machine that has both versions of cgroups in use; runc does not. Elsewhere the machine's own is right.
    both = Path("/sys/fs/cgroup/unified").exists() and shutil.which("runc") is not None
    engine = '[engine]\nruntime = "runc"\n' if both else ""
    (folder / "containers.conf").write_text(f'[network]\ndefault_subnet_pools = [{{"base" = "{addresses_of_podman()}", "size" = 24}}]\n{engine}')
    command = ["podman", "--root", f"{folder}/root", "--runroot", f"{folder}/run", "--tmpdir", f"{folder}/tmp", "--network-config-dir", f"{folder}/net"]
    command += ["--cgroup-manager", "cgroupfs", "--events-backend", "file", "system", "service", "--time=0", f"unix://{folder}/socket"]
    return RealDaemon("podman", folder, command, {"CONTAINERS_CONF": f"{folder}/containers.conf"})


def addresses_of_podman() -> str:
    """Other ones in each process of the tests. A Podman makes the bridge of a network with its first container, so another one that looks for
    free addresses before that takes the same, and of two bridges with the same addresses one hears no answers."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return f"10.{200 + os.getppid() % 5 * 10 + worker}.0.0/16"


@contextlib.contextmanager
def running(make: Any, *more: str) -> Iterator[RealDaemon]:
    folder = Path(tempfile.mkdtemp(prefix="fairy-ce-"))  # short: a socket's path has at most 107 bytes
    try:
        daemon = make(folder, *more)
    except BaseException:
        shutil.rmtree(folder)
        raise
    try:
        daemon.start()
        for archive in (busybox_image_tar(), scratch_image_tar()):
            daemon.load(archive)
        yield daemon
        clean_all(daemon)
    finally:
        daemon.stop()
        daemon.remove()


def clean_all(daemon: RealDaemon) -> None:
    for one in daemon.ask("GET", "/containers/json?all=1"):
        daemon.ask("DELETE", f"/containers/{one['Id']}?force=1&v=1")
    for network in daemon.ask("GET", "/networks"):
        if network["Name"].startswith("fairy-"):
            # A Docker that was killed may keep an endpoint of a container that is gone; of any other that would be a fault.
            with contextlib.suppress(*([AssertionError] if daemon.was_killed else [])):
                daemon.ask("DELETE", f"/networks/{network['Name']}")
            remove_firewall(network["Name"])


def remove_firewall(network: str) -> None:
    for family in ("inet", "bridge"):
        subprocess.run(["nft", "delete", "table", family, network.replace("fairy-", "gpufairy_")], check=False, capture_output=True)
    if shutil.which("ip") is not None:
        subprocess.run(["ip", "link", "delete", network], check=False, capture_output=True)


@pytest.fixture(scope="session")
def docker_daemon() -> Iterator[RealDaemon]:
    with running(make_docker) as daemon:
        yield daemon


@pytest.fixture(scope="session")
def podman_daemon() -> Iterator[RealDaemon]:
    with running(make_podman) as daemon:
        yield daemon


def server_id() -> str:
    """Another for every test: names on the host are made from it."""
    return os.urandom(4).hex()


@pytest.fixture(scope="session")
def docker_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is mounted at /opt/fairy."""
    return build_tools(tmp_path_factory.mktemp("tools")).folder
