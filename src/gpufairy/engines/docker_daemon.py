"""The daemon at the other end of the socket: asked with a deadline, its errors turned into ours, its own limits known."""
import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiodocker
import aiohttp

from gpufairy.core.errors import EngineSilent
from gpufairy.engines.docker_words import NOT_ITSELF, refusal

ANSWER_S = 10.0  # for a look: a daemon that takes longer is taken for silent
WORK_S = 120.0  # for a create or a start, on a slow disk under load
NO_CONNECTION = 900  # aiodocker's own status
NOT_FOUND, CONFLICT = 404, 409
CAP_SYS_RESOURCE = 1 << 24

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hard:
    """The hard limits that a container's cannot be above. None: any limit can be had."""

    nofile: int | None = None
    nproc: int | None = None


class Daemon:
    def __init__(self, socket_path: str, node_name: str) -> None:
        self.path = socket_path
        self.node_name = node_name
        self.podman = False
        self.version = ""
        self.cdi_folders: tuple[Path, ...] = ()
        self.cpus_milli = 10**9  # not known: more than any machine has
        self.hard = Hard()
        self._docker: aiodocker.Docker | None = None

    @property
    def docker(self) -> aiodocker.Docker:
        if self._docker is None:
            raise EngineSilent(f"the docker engine on {self.node_name} is not started")
        return self._docker

    async def open(self) -> None:
        """Connect, and learn what it is."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=5)
        self._docker = aiodocker.Docker(url=f"unix://{self.path}", timeout=limits)
        async with self.asked("the container engine's version"):
            version, found = await self.docker.version(), await self.docker.system.info()
        self.podman = any("podman" in str(part.get("Name", "")).lower() for part in version.get("Components") or ())
        self.version = str(version.get("Version", ""))
        self.cpus_milli = int(found.get("NCPU") or 0) * 1000 or self.cpus_milli
        self.cdi_folders = tuple(Path(folder) for folder in found.get("CDISpecDirs") or ())
        self.hard = await asyncio.to_thread(hard_limits, self.path)
        if not self.podman and not found.get("LiveRestoreEnabled"):
            log.warning("docker on %s has live-restore off: a restart of docker ends all sessions", self.node_name)

    async def close(self) -> None:
        if self._docker is not None:
            await self._docker.close()
            self._docker = None

    @contextlib.asynccontextmanager
    async def asked(self, what: str, *, within_s: float = ANSWER_S, fine: Collection[int] = ()) -> AsyncIterator[None]:
        """Around one call or more. `fine`: answers that are as good as done. Raises DaemonRefused or EngineSilent."""
        try:
            async with asyncio.timeout(within_s):
                yield
        except aiodocker.DockerError as error:
            if error.status in fine:
                return
            if error.status == NO_CONNECTION or NOT_ITSELF.search(str(error.message)):
                raise self._silent(what, error) from error
            raise refusal(f"{what} on {self.node_name}", error.status, str(error.message)) from error
        except TimeoutError as error:
            raise self._silent(what, f"no answer within {within_s:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: half an answer is no JSON
            raise self._silent(what, error) from error

    def _silent(self, what: str, error: object) -> EngineSilent:
        return EngineSilent(f"the container engine at {self.path} on {self.node_name} gave no answer ({what}): {error}", "Is it running?")

    async def libpod_create(self, body: dict[str, Any]) -> str:
        """Podman's own call. Its Docker API says nothing and leaves GPUs out."""
        async with self.docker.session.post("http://localhost/v4.0.0/libpod/containers/create", json=body) as answer:
            found = await answer.json()
            if answer.status >= 400:
                raise aiodocker.DockerError(answer.status, str(found.get("message", found)))
            return str(found["Id"])

    def most_files(self, wanted: int) -> int:
        return wanted if self.hard.nofile is None else min(wanted, self.hard.nofile)


def hard_limits(socket_path: str) -> Hard:
    """Of the daemon's process. One without CAP_SYS_RESOURCE cannot raise a limit: asked for more, it would start nothing at all."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(socket_path)
            pid, _, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            status, limits = (Path(f"/proc/{pid}/{name}").read_text() for name in ("status", "limits"))
        except OSError:  # it runs where we cannot look
            return Hard()
    effective = next((line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), "0")
    if int(effective, 16) & CAP_SYS_RESOURCE:
        return Hard()
    return Hard(nofile=hard_limit(limits, "Max open files"), nproc=hard_limit(limits, "Max processes"))


def hard_limit(limits: str, name: str) -> int | None:
    found = next((line[len(name) :].split()[1] for line in limits.splitlines() if line.startswith(name)), "unlimited")
    return int(found) if found.isdecimal() else None
