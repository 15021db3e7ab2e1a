"""A small container with a user's folders and nothing else, for SFTP and its like when no session runs. It leaves by itself when unused."""
import asyncio
import hashlib
import io
import json
import tarfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpufairy.core.errors import EngineRefused
from gpufairy.engines.contract import Door
from gpufairy.engines.docker_daemon import CONFLICT, NOT_FOUND, WORK_S, Daemon
from gpufairy.engines.docker_door import porter_door
from gpufairy.engines.docker_facts import NO_FACTS, TOOLS_SHELL, group_text, passwd_text
from gpufairy.engines.docker_list import Container, Listing
from gpufairy.engines.docker_spec import FILES, PORTER, ROLE, DockerSettings, Mount, confinement, ulimits
from gpufairy.engines.docker_words import DaemonRefused
from gpufairy.engines.homes import check_uid, own_folder
from gpufairy.engines.run_folder import Places, write_private

IMAGE = "gpufairy/files:1"  # another number when what is in it changes
IDLE_S = 120
MEMORY_BYTES = 512 * 2**20
TRIES = 20  # for one that is just leaving: its name is free again a moment later
PAUSE_S = 0.1


class FilesContainers:
    def __init__(
        self, daemon: Daemon, listing: Listing, places: Places, settings: DockerSettings, *, server_id: str, tools: Path, shared: Path
    ) -> None:
        self._daemon, self._listing, self._places, self._settings = daemon, listing, places, settings
        self._server_id, self._tools, self._shared = server_id, tools, shared
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def door(self, owner: str, uid_of: Callable[[str], int]) -> Door:
        async with self._locks[owner]:
            for _ in range(TRIES):
                found = next((one for one in await self._listing.containers(FILES, owner=owner) if not one.over), None)
                door = await self._entered(found, owner) if found is not None and found.begun else None
                if door is not None:
                    return door
                await self._made(found, owner, uid_of(owner))
                await asyncio.sleep(0 if found is None else PAUSE_S)
        raise EngineRefused(f"the container for the files of {owner} does not come up", "Try again.")

    async def _entered(self, found: Container, owner: str) -> Door | None:
        return await porter_door(await self._listing.inspect(found.id), f"/home/{owner}", TOOLS_SHELL)

    async def _made(self, found: Container | None, owner: str, uid: int) -> None:
        """Made and started; one that was made and never started is started. A name that is taken is one that is leaving."""
        container_id = found.id if found is not None else ""
        try:
            if not container_id:
                lists = await asyncio.to_thread(self._prepared, owner, uid)
                await self._ensure_image()
                async with self._daemon.asked(f"making the container for the files of {owner}", within_s=WORK_S):
                    spec = self._spec(owner, uid, lists)
                    container_id = (await self._daemon.docker.containers.create(spec, name=f"fairy-files.{owner}")).id
            async with self._daemon.asked(f"starting the container for the files of {owner}", within_s=WORK_S, fine=(304, NOT_FOUND)):
                await self._daemon.docker.containers.container(container_id).start()
        except DaemonRefused as error:
            if error.status != CONFLICT and not error.name_taken:
                raise
            await self._remove_foreign(owner)
            await asyncio.sleep(PAUSE_S)

    async def _remove_foreign(self, owner: str) -> None:
        """An exited one, if the daemon has not removed it itself."""
        for one in await self._listing.containers(FILES, owner=owner):
            if one.over:
                async with self._daemon.asked("removing what is over", fine=(NOT_FOUND, CONFLICT)):
                    await self._daemon.docker.containers.container(one.id).delete(v=True)

    def _prepared(self, owner: str, uid: int) -> tuple[Mount, ...]:
        check_uid(owner, uid)
        folder = self._places.root / "files"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            own_folder(self._places.home(owner), uid)
            made = []
            for name, text in (("passwd", passwd_text(NO_FACTS, owner, uid)), ("group", group_text(NO_FACTS, owner, uid))):
                write_private(folder / f"{owner}.{name}", text)
                (folder / f"{owner}.{name}").chmod(0o644)
                made.append(Mount(folder / f"{owner}.{name}", f"/etc/{name}"))
        except OSError as error:
            next_step = "Free room there, or start the server as root."
            raise EngineRefused(f"the folders of {owner} could not be made ready: {error}", next_step) from error
        return tuple(made)

    def _spec(self, owner: str, uid: int, lists: tuple[Mount, ...]) -> dict[str, Any]:
        folders = (Mount(folder.path, f"/mnt/{name}", folder.writable) for name, folder in self._settings.folders.items())
        home = Mount(self._places.home(owner), f"/home/{owner}", writable=True)
        mounts = (home, Mount(self._shared, "/shared"), Mount(self._tools, "/opt/fairy"), *lists, *folders)
        return {
            "Image": IMAGE,
            "Entrypoint": [PORTER, "--idle-exit", str(IDLE_S), "--workdir", f"/home/{owner}"],
            "User": f"{uid}:{uid}",
            "WorkingDir": "/",
            "Hostname": "files",
            "Env": [
                f"HOME=/home/{owner}", f"USER={owner}", f"LOGNAME={owner}", f"SHELL={TOOLS_SHELL}", "PATH=/opt/fairy/bin", "LANG=C.UTF-8",
            ],
            "Labels": {ROLE: FILES, "gpufairy.server": self._server_id, "gpufairy.owner": owner},
            "StopSignal": "SIGTERM",
            "HostConfig": {
                **confinement(),
                "AutoRemove": True,
                "ReadonlyRootfs": True,
                "NetworkMode": "none",
                "Mounts": [mount.plain() for mount in mounts],
                "Memory": MEMORY_BYTES,
                "MemorySwap": MEMORY_BYTES,
                "NanoCpus": 2 * 10**9,
                "PidsLimit": 256,
                "Ulimits": ulimits(self._daemon.most_files(4096), self._daemon.hard.nproc),
            },
        }

    async def _ensure_image(self) -> None:
        found = False
        async with self._daemon.asked(f"looking for image {IMAGE}", fine=(NOT_FOUND,)):
            await self._daemon.docker.images.inspect(IMAGE)
            found = True
        if not found:
            async with self._daemon.asked(f"loading image {IMAGE}", within_s=WORK_S):
                await self._daemon.docker.images.import_image(files_image())


def files_image() -> bytes:
    """Folders to mount things on, and nothing that could be run."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name in ("etc", "home", "mnt", "opt", "run", "shared", "tmp"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
    body = layer.getvalue()
    digest = hashlib.sha256(body).hexdigest()
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs, "history": [{}]}).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [IMAGE], "Layers": [f"{digest}/layer.tar"]}]).encode()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in ((config_name, config), (f"{digest}/layer.tar", body), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()
