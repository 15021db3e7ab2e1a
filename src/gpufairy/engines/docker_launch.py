"""A session's container made and started, once: looked for by its labels first, and taken down again when it does not start."""
import asyncio
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpufairy.core import failpoints
from gpufairy.core.amounts import show_size, shown
from gpufairy.core.classes import HAND_IN
from gpufairy.core.errors import BadInput, EngineRefused, EngineSilent
from gpufairy.core.names import session_name, user_name
from gpufairy.core.session import Request, Session
from gpufairy.core.workload import workload_id
from gpufairy.engines.began_file import has_begun
from gpufairy.engines.cdi import USUAL_FOLDERS, cdi_devices, offered_devices
from gpufairy.engines.contract import NO_SHARES, Credentials, GpuShares
from gpufairy.engines.docker_daemon import CONFLICT, NOT_FOUND, WORK_S, Daemon
from gpufairy.engines.docker_facts import ImageFacts
from gpufairy.engines.docker_libpod import libpod_spec
from gpufairy.engines.docker_list import Container, Listing
from gpufairy.engines.docker_pids import kill_processes
from gpufairy.engines.docker_spec import DockerSettings, Gpus, Mount, Surroundings, container_names, container_spec, labelled_id
from gpufairy.engines.docker_words import DaemonRefused
from gpufairy.engines.homes import HandIn, check_uid, folder_mounts, hand_in_mount, no_hand_in, prepare_run, run_mounts
from gpufairy.engines.process_env import left_out
from gpufairy.engines.run_folder import Places, remove_run
from gpufairy.engines.share_files import share_mounts, shared_gpus, write_share

HAS_IPV6 = Path("/proc/sys/net/ipv6").exists()
LONGEST_STRING = 128 * 2**10  # bytes of one argument or variable, as the kernel has it
LONGEST_IN_ALL = 512 * 2**10  # of all; the kernel takes 2 MiB, and some of that is the image's and ours
LOOKS, PAUSE_S = 100, 0.1  # ten seconds in all
ALREADY = 304  # it runs
SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

log = logging.getLogger(__name__)


class Launcher:
    def __init__(
        self,
        daemon: Daemon,
        listing: Listing,
        places: Places,
        settings: DockerSettings,
        credentials: Callable[[Session], Credentials],
        *,
        server_id: str,
        network: str,
        tools: Path,
        shared: Path,
        api_folder: Path,
        gpu_shares: GpuShares = NO_SHARES,
        hand_in: HandIn = no_hand_in,
    ) -> None:
        self._hand_in = hand_in
        self._daemon, self._listing, self._places, self._settings = daemon, listing, places, settings
        self._credentials, self._server_id, self._network, self._gpu_shares = credentials, server_id, network, gpu_shares
        self._common = (
            Mount(shared, "/shared"), Mount(tools, "/opt/fairy"), Mount(api_folder, "/run/fairy/server"),
            Mount(tools / "share" / "profile.sh", "/etc/profile.d/zz-fairy.sh"),
        )  # fmt: skip

    async def started_before(self, session: Session) -> bool:
        """Whether this very attempt has a container: then there is at most its start to make up for."""
        found = await self._listing.of(workload_id(session))
        if found is not None and not found.begun:
            await self._start(session, found.id)
        if found is not None and shared_gpus(session):
            await self._hold_shares(session, found.id)  # if the answer to its start was lost, nobody came as far as this
        return found is not None

    async def launch(self, session: Session, image: str, facts: ImageFacts, uid: int) -> None:
        check_names(session)
        check_length(session)
        check_uid(session.owner, uid)
        name, root = str(workload_id(session)), self._settings.root_inside(image)
        asked = await asyncio.to_thread(self.check_mounts, session.request, image, session.owner)
        gpus = await asyncio.to_thread(self._gpus, session)
        pipes = await self._gpu_shares.ready(session)
        shares = share_mounts(self._places.run(name), pipes) if shared_gpus(session) else ()
        mounts = (*run_mounts(self._places, name, session.owner, root=root), *self._common, *shares, *asked)
        here = Surroundings(
            uid, image, self._server_id, self._network, mounts, facts, gpus, root,
            nofile=self._daemon.most_files(self._settings.nofile), nproc=self._daemon.hard.nproc,
            has_ipv6=HAS_IPV6, cpus_milli=self._daemon.cpus_milli,
        )  # fmt: skip
        try:
            await asyncio.to_thread(self._prepare, session, name, uid, facts, mps=pipes is not None)
            failpoints.passing("after_folders_before_container_create")
            container_id = await self._created(session, here)
        except EngineRefused:
            await asyncio.to_thread(remove_run, self._places.run(name))
            raise
        failpoints.passing("after_container_create_before_start")
        await self._start(session, container_id)
        failpoints.passing("after_container_start_before_told")
        if shared_gpus(session):
            await self._hold_shares(session, container_id)

    async def _hold_shares(self, session: Session, container_id: str) -> None:
        detail = await self._listing.inspect(container_id)
        pid = 0 if detail is None else int((detail.get("State") or {}).get("Pid") or 0)
        if pid:  # else it has ended already
            await self._gpu_shares.begun(session, pid)

    def check_mounts(self, request: Request, image: str, owner: str | None = None) -> tuple[Mount, ...]:
        """Raises EngineRefused. Whoever is root inside is so on the host's folders too, where a setuid file would make anybody root.

        Without an owner, what they have of a class is left out.
        """
        if request.mounts and self._settings.root_inside(image):
            raise EngineRefused(f"in image {image} you are root, so no folder of this machine is mounted", "Use another image.")
        of_classes = [name for name in request.mounts if name.startswith(f"{HAND_IN}/")]
        plain = tuple(name for name in request.mounts if name not in of_classes)
        handed = [] if owner is None else [hand_in_mount(name, self._hand_in(owner, name.partition("/")[2])) for name in of_classes]
        return (*folder_mounts(plain, self._settings.folders), *handed)

    def _prepare(self, session: Session, name: str, uid: int, facts: ImageFacts, *, mps: bool) -> None:
        try:
            prepare_run(self._places, name, session.owner, uid=uid, token=self._credentials(session).token, facts=facts)
            if parts := shared_gpus(session):
                write_share(self._places.run(name), parts, uid, mps=mps)
            if dropped := left_out(session.request.env):
                with open(self._places.log(name), "ab") as file:
                    file.write(f"fairy: not passed on, since sessions may not set them: {', '.join(dropped)}\n".encode())
        except PermissionError as error:
            found = f"the folders of session {session.name} could not be given to its owner: {error}"
            raise EngineRefused(found, "Start the server as root.") from error
        except OSError as error:
            raise EngineRefused(f"the folders of session {session.name} could not be made ready: {error}", "Free room there.") from error

    async def _created(self, session: Session, here: Surroundings) -> str:
        spec = container_spec(session, here, self._settings)
        *first, last = container_names(session)
        for name in first:
            try:
                return await self._create(session, spec, name, here)
            except DaemonRefused as error:
                if not error.name_taken:
                    raise
            # By this very attempt, if the answer to its create was lost: then it is the one.
            holder = await self._holder(name)
            if labelled_id(holder.labels) == workload_id(session) and holder.labels.get("gpufairy.server") == self._server_id:
                return holder.id
        return await self._create(session, spec, last, here)

    async def _holder(self, name: str) -> Container:
        """Who has the name. A container that is just being made has it a while before it can be seen."""
        for _ in range(LOOKS):
            detail = await self._listing.inspect(name)
            if detail is not None:
                return Container(str(detail["Id"]), name, "", (detail.get("Config") or {}).get("Labels") or {})
            await asyncio.sleep(PAUSE_S)
        raise EngineSilent(f"the name {name} is taken on {self._daemon.node_name}, and whoever has it cannot be seen", "Try again.")

    async def _create(self, session: Session, spec: dict[str, Any], name: str, here: Surroundings) -> str:
        by_cdi = here.gpus.cdi if self._daemon.podman else ()
        made = ""
        async with self._daemon.asked(f"making the container of session {session.name}", within_s=WORK_S):
            if by_cdi:
                made = await self._daemon.libpod_create(libpod_spec(spec, name, here.mounts, by_cdi))
            else:
                made = (await self._daemon.docker.containers.create(spec, name=name)).id
        return made

    async def _start(self, session: Session, container_id: str) -> None:
        run = self._places.run(str(workload_id(session)))
        try:
            await self._ask_to_start(container_id, f"starting session {session.name}")
        except DaemonRefused:
            if has_begun(run) and await self._settled(container_id):
                return
            await self._remove(container_id, force=True)
            if not has_begun(run):  # else what is kept there holds back whoever launches it again
                await asyncio.to_thread(remove_run, run)
            raise

    async def _ask_to_start(self, container_id: str, what: str) -> None:
        async with self._daemon.asked(what, within_s=WORK_S, fine=(ALREADY,)):
            await self._daemon.docker.containers.container(container_id).start()

    async def _settled(self, container_id: str) -> bool:
        """Of one that has begun, says its porter, and not, says the daemon. Either the daemon is still about it, and a second start waits
        for the first. Or it was killed in the middle and has forgotten it: then it neither ends what runs nor starts it again as long as
        that runs; so that is ended here, and started again it is over at once (native/once.c)."""
        for _ in range(LOOKS):
            try:
                await self._ask_to_start(container_id, "looking after a container that was forgotten")
                return True
            except DaemonRefused:
                if await asyncio.to_thread(kill_processes, container_id):
                    log.warning("container %s ran, and the container engine had forgotten that: it is ended", container_id[:12])
            await asyncio.sleep(PAUSE_S)
        return False

    async def remove(self, container: Container) -> None:
        forgotten = self._is_forgotten(container)
        if forgotten:
            await self._settled(container.id)
        await self._remove(container.id, force=forgotten)

    async def _remove(self, container_id: str, *, force: bool) -> None:
        async with self._daemon.asked("removing a container", within_s=WORK_S, fine=(NOT_FOUND, CONFLICT)):
            await self._daemon.docker.containers.container(container_id).delete(v=True, force=force)

    def _is_forgotten(self, container: Container) -> bool:
        workload = labelled_id(container.labels)
        return not container.begun and workload is not None and has_begun(self._places.run(str(workload)))

    async def remove_never_begun(self) -> None:
        """What a server that died left half made. If it is still wanted, it is launched anew."""
        for container in await self._listing.containers():
            if self._is_forgotten(container):
                await self._settled(container.id)
            elif not container.begun:
                log.info("container %s was made and never started: it is removed", container.name)
                await self.remove(container)

    def _gpus(self, session: Session) -> Gpus:
        real = [gpu for gpu in (session.seat.gpus if session.seat is not None else ()) if not gpu.simulated]
        if not real:
            return Gpus()
        folders = self._daemon.cdi_folders or (USUAL_FOLDERS if self._daemon.podman else ())
        names = cdi_devices(real, offered_devices(folders)) if folders else None
        if names is not None:
            return Gpus(cdi=names)
        if self._daemon.podman:
            wanted = ", ".join(gpu.device for gpu in real)
            raise EngineRefused(f"Podman finds no CDI device for {wanted}", "Make the files by `nvidia-ctk cdi generate`.")
        return Gpus(nvidia=tuple(dict.fromkeys(gpu.device for gpu in real)))


def check_length(session: Session) -> None:
    """Linux itself would refuse it: after the container is made, and in words that nobody understands."""
    strings = [*session.request.command, *(f"{name}={value}" for name, value in session.request.env)]
    sizes = [len(text.encode(errors="surrogatepass")) for text in strings]
    if sum(sizes) > LONGEST_IN_ALL or max(sizes, default=0) >= LONGEST_STRING:
        found = f"the command and variables of session {session.name} are longer than Linux takes: {show_size(sum(sizes))}"
        raise EngineRefused(found, "Put them into files.")


def check_names(session: Session) -> None:
    """Names are checked where they come in; here once more, for they become names of folders, containers and hosts."""
    try:
        user_name(session.owner)
        session_name(session.name)
    except BadInput as error:
        raise EngineRefused(error.detail, error.next_step) from error
    if not SESSION_ID.fullmatch(session.id):
        raise EngineRefused(f"{shown(session.id)} is no session's id", "This is an error in gpufairy: please report it.")
