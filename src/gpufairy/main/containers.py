"""The docker engine as this server needs it: its socket found, its tools built, its folders chosen."""
import contextlib
import http.client
import os
import secrets
import socket
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from gpufairy.core.errors import BadInput
from gpufairy.core.node import Node
from gpufairy.core.session import Session
from gpufairy.core.uids import FIRST_UID
from gpufairy.engines.contract import Credentials, GpuShares
from gpufairy.engines.docker import DockerEngine
from gpufairy.engines.docker_spec import DockerSettings, Folder, Network
from gpufairy.engines.homes import HandIn, no_hand_in
from gpufairy.engines.old_files import use_tools
from gpufairy.engines.run_folder import Places
from gpufairy.engines.tools import build_tools
from gpufairy.wire.config import Config

USUAL_SOCKETS = ("/var/run/docker.sock", "/run/podman/podman.sock")
ANSWER_S = 2.0
API_SOCKET = "api.sock"


def found_socket(config: Config) -> str | None:
    """The first that answers as Docker would: the one that is set, or where Docker and Podman usually have theirs."""
    named = os.environ.get("DOCKER_HOST", "")
    usual = [named.removeprefix("unix://")] if named.startswith("unix://") else []
    candidates = [config.docker.socket] if config.docker.socket else [*usual, *USUAL_SOCKETS]
    return next((path for path in candidates if answers(path)), None)


def answers(path: str) -> bool:
    connection = http.client.HTTPConnection("localhost", timeout=ANSWER_S)
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.sock.settimeout(ANSWER_S)
        connection.sock.connect(path)
        connection.request("GET", "/_ping")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def docker_engine(
    data: Path, config: Config, node: Node, credentials: Callable[[Session], Credentials], uid_of: Callable[[str], int],
    *, gpu_shares: GpuShares, hand_in: HandIn = no_hand_in,
) -> DockerEngine:  # fmt: skip
    path = found_socket(config)
    if path is None:
        raise BadInput("--engine docker: no Docker or Podman answers", "Start it, or name its socket: [docker] socket in fairy.toml.")
    if os.geteuid() != 0:
        raise BadInput("--engine docker: needs root, since homes belong to their users' uids", "Start it with sudo, or --engine process.")
    tools = build_tools(data / "tools", say)
    use_tools(data / "tools", tools.folder.name, datetime.now(UTC))
    for name, how in tools.missing.items():
        say(f"{name} is not on this machine, so sessions whose image lacks it have none ({how})")
    shared = shared_folder(data, config)
    for folder in (shared, shared / "wheels", shared / "envs"):
        make_readable(folder)
    return DockerEngine(
        path, places(data, config), node, credentials, uid_of=uid_of, settings=settings(config), tools=tools.folder, shared=shared,
        api_folder=api_folder(data), server_id=server_id(data), log_cap_bytes=config.log_cap_bytes,
        gpu_shares=gpu_shares, hand_in=hand_in,
    )  # fmt: skip


def make_readable(folder: Path) -> None:
    """By every session, whatever our umask is. One that is there already has the rights that somebody gave it."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o755)


def shared_folder(data: Path, config: Config) -> Path:
    """Seen as /shared by every session, read-only."""
    return Path(config.docker.shared) if config.docker.shared else data / "shared"


def places(data: Path, config: Config) -> Places:
    return Places(data / "sessions", homes=Path(config.docker.homes) if config.docker.homes else None)


def settings(config: Config) -> DockerSettings:
    docker, images = config.docker, config.images
    if docker.network not in set(Network):
        raise BadInput(f"docker.network: found {docker.network[:40]!r}", f"Write one of {', '.join(Network)}.")
    return DockerSettings(
        default_image=images.default, root_images=tuple(images.root), pull=images.pull, network=Network(docker.network),
        pids=docker.most_processes, nofile=docker.open_files,
        folders=folders_there(config),
    )  # fmt: skip


def folders_there(config: Config) -> dict[str, Folder]:
    """One that is missing, a disk that is not mounted for example, must not keep everybody else from their files."""
    for name, folder in config.folders.items():
        if not Path(folder.path).is_dir():
            say(f"folder {name} is not offered: {folder.path} is no folder on this machine (folders.{name}.path in fairy.toml)")
    return {name: Folder(Path(folder.path), folder.write) for name, folder in config.folders.items() if Path(folder.path).is_dir()}


def uids_on_folders(homes: Path) -> dict[str, int]:
    """What homes that are there already say of whose they are."""
    try:
        with os.scandir(homes) as entries:
            found = {entry.name: entry.stat(follow_symlinks=False).st_uid for entry in entries if entry.is_dir(follow_symlinks=False)}
    except OSError:
        return {}
    return {name: uid for name, uid in found.items() if uid >= FIRST_UID}


def api_folder(data: Path) -> Path:
    """Mounted into every session, with nothing in it but the socket of the API."""
    folder = data / "door"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    return folder


def api_listener(data: Path) -> socket.socket:
    """Sessions have no way to the host by the network, so the API comes to them as a socket. A token is asked for there as everywhere."""
    path = api_folder(data) / API_SOCKET
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_PATH | os.O_CLOEXEC)
    try:
        # By its descriptor: the address of a socket has at most 107 bytes, and a data folder may lie as deep as it likes.
        listener.bind(f"/proc/self/fd/{folder}/{API_SOCKET}")
    finally:
        os.close(folder)
    path.chmod(0o666)  # the folder above is the server's own; from inside, every session's uid must reach it
    listener.listen(1024)
    listener.setblocking(False)
    return listener


def server_id(data: Path) -> str:
    """Which server's containers are whose. It lies beside the database, not in it: a lost database must still find its own."""
    path = data / "server-id"
    if not path.exists():
        path.write_text(secrets.token_hex(6))
    return path.read_text().strip()


def say(text: str) -> None:
    sys.stderr.write(f"fairy: {text}\n")
