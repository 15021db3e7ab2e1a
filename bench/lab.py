"""A lab on one machine, for benchmarks: a container engine, the server with its gateway, a student with a key, and a plain sshd beside."""
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.ports import free_port
from bench.server import LiveServer
from daemons import RealDaemon, make_docker, running
from gpufairy.client import Fairy

IMAGE = "fairy-test/busybox:1"
CIPHER = "aes128-gcm@openssh.com"  # the same on both sides: what is compared is the path, not the cipher
USER = "kim"


@dataclass(frozen=True)
class Lab:
    server: LiveServer
    daemon: RealDaemon
    key: Path
    sshd_port: int

    @property
    def gateway_port(self) -> int:
        return int(json.loads((self.server.data / "ssh" / "gateway.json").read_text())["port"])

    @property
    def gateway_pid(self) -> int:
        return int(json.loads((self.server.data / "ssh" / "gateway.json").read_text())["pid"])

    def options(self) -> list[str]:
        settings = ("IdentitiesOnly=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes", "LogLevel=ERROR")
        return ["-F", "/dev/null", "-i", str(self.key), "-c", CIPHER, *(word for setting in settings for word in ("-o", setting))]

    def ssh(self, *words: str, plain: bool = False) -> list[str]:
        port, user = (self.sshd_port, "root") if plain else (self.gateway_port, USER)
        return ["ssh", *self.options(), "-p", str(port), f"{user}@127.0.0.1", *words]

    def copy(self, program: str, plain: bool) -> list[str]:
        port = self.sshd_port if plain else self.gateway_port
        return [program, *self.options(), "-q", "-P", str(port)]

    def where(self, plain: bool) -> str:
        return "root@127.0.0.1" if plain else f"{USER}@127.0.0.1"


@contextlib.contextmanager
def lab() -> Iterator[Lab]:
    folder = Path(tempfile.mkdtemp(prefix="fairy-bench-"))
    settings = "[images]\ndefault = '{image}'\n[docker]\nsocket = '{socket}'\n[node]\ncpus = 64\nmemory = '64GiB'\n"
    try:
        with running(make_docker) as daemon:
            text = settings.format(image=IMAGE, socket=daemon.socket)
            live = LiveServer(folder / "fairy", text, ("--simulate", "none"), engine="docker", ssh=True)
            with live as server, plain_sshd(folder) as port:
                key = folder / "key"
                make_key(key)
                (folder / "authorized").write_text(key.with_suffix(".pub").read_text())
                with server.client() as admin:
                    let_in(admin, USER, key)
                yield Lab(server, daemon, key, port)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def let_in(admin: Fairy, user: str, key: Path) -> None:
    admin.add_user({"name": user})
    admin.add_key({"key": key.with_suffix(".pub").read_text(), "user": user})


def make_key(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)


@contextlib.contextmanager
def plain_sshd(folder: Path) -> Iterator[int]:
    """OpenSSH as it comes, but for keys and port; the peer of every figure."""
    port = free_port()
    make_key(folder / "host_key")
    os.makedirs("/run/sshd", exist_ok=True)
    settings = [
        f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {folder}/host_key", f"AuthorizedKeysFile {folder}/authorized",
        "StrictModes no", "UsePAM no", "PermitRootLogin yes", "MaxStartups 2000", f"PidFile {folder}/sshd.pid",
        "Subsystem sftp /usr/lib/openssh/sftp-server",
    ]  # fmt: skip
    (folder / "sshd_config").write_text("\n".join(settings) + "\n")
    process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port)
        yield port
    finally:
        process.terminate()
        process.wait()


def wait_for_port(port: int, limit_s: float = 10) -> None:
    until = time.monotonic() + limit_s
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        if time.monotonic() > until:
            raise RuntimeError(f"nothing listens on port {port}")
        time.sleep(0.02)
