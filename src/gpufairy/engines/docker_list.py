"""What runs, read back from labels. One listing a look; a container is looked at closely only when it has changed."""
import asyncio
import json
import logging
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gpufairy.core.errors import EngineSilent
from gpufairy.core.workload import Workload, WorkloadId, WorkloadState
from gpufairy.engines.began_file import was_begun_again
from gpufairy.engines.docker_daemon import NOT_FOUND, Daemon
from gpufairy.engines.docker_images import environment
from gpufairy.engines.docker_oom import killed_for_memory
from gpufairy.engines.docker_spec import ROLE, SESSION, labelled_id, labelled_session
from gpufairy.engines.docker_words import DaemonRefused, why_over
from gpufairy.engines.run_folder import Places

NOT_BEGUN = frozenset({"created", "configured", "initialized"})  # the last two are Podman's
OVER = frozenset({"exited", "dead", "stopped", "removing"})
CLOSE_LOOKS_AT_ONCE = 16
JUST_GONE, TRIES = "no such process", 5  # Podman gives the whole list up when a container ends while it is made
TRIES, PAUSE_S = 5, 0.05
NOT_STARTED = 125  # a porter's exit code
LONG_AGO = "0001-01-01"  # what a daemon says for never

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Container:
    """One line of the daemon's list."""

    id: str
    name: str
    state: str
    labels: Mapping[str, str]

    @property
    def begun(self) -> bool:
        return self.state not in NOT_BEGUN

    @property
    def over(self) -> bool:
        return self.state in OVER


class Listing:
    def __init__(self, daemon: Daemon, server_id: str, places: Places) -> None:
        self._daemon, self._server_id, self._places = daemon, server_id, places
        self._close: dict[tuple[str, str], Workload] = {}  # by container and state
        self._gate = asyncio.Semaphore(CLOSE_LOOKS_AT_ONCE)
        self._alive: dict[str, int] = {}  # as of the last listing: each with the number of the launch that put it there, or 0
        self._launches = 0
        self.answered_at: datetime | None = None

    async def containers(self, role: str = SESSION, **labels: str) -> list[Container]:
        """Ours alone: by the server's label and the role. Raises EngineSilent, whatever went wrong: this is never "nothing"."""
        wanted = {"gpufairy.server": self._server_id, ROLE: role, **{f"gpufairy.{name}": value for name, value in labels.items()}}
        filters = {"label": [f"{name}={value}" for name, value in wanted.items()]}
        listed = await self._listed(json.dumps(filters))
        # Podman's filters were seen to match by pattern: a label is compared whole, here.
        return [one for one in listed if all(one.labels.get(name) == value for name, value in wanted.items())]

    async def _listed(self, filters: str, tries: int = TRIES) -> list[Container]:
        try:
            async with self._daemon.asked("listing sessions"):
                found = await self._daemon.docker.containers.list(all=True, filters=filters)
        except DaemonRefused as error:
            if tries > 1 and JUST_GONE in error.answer:
                return await self._listed(filters, tries - 1)
            raise EngineSilent(str(error), error.next_step) from error
        return [container_of(one._container) for one in found]

    async def of(self, workload: WorkloadId) -> Container | None:
        """Its container, in whatever state. Of several, after an answer that was lost, one that has begun."""
        found = await self.containers(session=workload.session_id, attempt=str(workload.attempt))
        return max(found, key=lambda container: (container.begun, container.id), default=None)

    async def workloads(self, launching: Collection[str]) -> list[Workload]:
        """One that was made and never begun is listed only while it is being launched: else nobody would launch it again."""
        before = self._launches
        containers = [one for one in await self.containers() if one.begun or str(labelled_id(one.labels)) in launching]
        known = {(one.id, one.state) for one in containers}
        self._close = {key: seen for key, seen in self._close.items() if key in known}
        found = [workload for workload in await asyncio.gather(*map(self._workload, containers)) if workload is not None]
        # What was launched after this listing began may not be in it.
        newer = {name: number for name, number in self._alive.items() if number > before}
        self._alive = {**{str(workload.id): 0 for workload in found if workload.alive}, **newer}
        self.answered_at = datetime.now(UTC)
        return found

    def begun(self, name: str) -> None:
        self._launches += 1
        self._alive[name] = self._launches

    def alive(self, name: str) -> bool:
        """As far as was seen: without asking."""
        return name in self._alive

    def all_alive(self) -> list[str]:
        return list(self._alive)

    async def _workload(self, container: Container) -> Workload | None:
        known_id = labelled_id(container.labels)
        if known_id is None:
            log.warning("container %s has our label and no session's: it is left alone", container.name)
            return None
        if not container.begun:
            return Workload(known_id, self._daemon.node_name, WorkloadState.STARTING, session=labelled_session(container.labels, {}))
        key = (container.id, container.state)
        if key not in self._close:
            async with self._gate:
                detail = await self.inspect(container.id)
            if detail is None:
                return None
            if unexplained(detail["State"]) and await asyncio.to_thread(killed_for_memory, container.id):
                detail["State"]["OOMKilled"] = True
            self._close[key] = self._seen(known_id, container, detail)
        return self._close[key]

    def _seen(self, known_id: WorkloadId, container: Container, detail: Mapping[str, Any]) -> Workload:
        state, env = detail["State"], environment(detail)
        session, began = labelled_session(container.labels, env), moment(state.get("StartedAt"))
        if state.get("Running") or state.get("Paused"):
            pid = int(state.get("Pid") or 0) or None
            return Workload(known_id, self._daemon.node_name, WorkloadState.RUNNING, started_at=began, pid=pid, session=session)
        memory = int((detail.get("HostConfig") or {}).get("Memory") or 0)
        rebooted = fell_between(booted_at(), began, moment(state.get("FinishedAt")))
        run, code = self._places.run(str(known_id)), state.get("ExitCode")
        stopped, again = (run / "stopped").exists(), code == NOT_STARTED and was_begun_again(run)
        why = why_over(state, stopped=stopped, memory_bytes=memory, rebooted=rebooted, again=again)
        known = isinstance(code, int) and 0 <= code <= 255 and not again
        return Workload(
            known_id, self._daemon.node_name, WorkloadState.EXITED, exit_code=code if known else None,
            why=why, started_at=began, session=session,
        )  # fmt: skip

    async def inspect(self, container_id: str) -> dict[str, Any] | None:
        """Podman stumbles over one that ends at that very moment, so it is asked again. Raises EngineSilent."""
        for left in reversed(range(TRIES)):
            found: dict[str, Any] | None = None
            try:
                async with self._daemon.asked("looking at a container", fine=(NOT_FOUND,)):
                    found = await self._daemon.docker.containers.container(container_id).show()
                return found
            except DaemonRefused as error:
                if not left:
                    raise EngineSilent(str(error), error.next_step) from error
            await asyncio.sleep(PAUSE_S)
        return None

    def forget(self, container_id: str) -> None:
        """Something happened to it: it is looked at anew."""
        for key in [key for key in self._close if key[0] == container_id]:
            del self._close[key]


def booted_at() -> datetime:
    return datetime.now(UTC) - timedelta(seconds=time.clock_gettime(time.CLOCK_BOOTTIME))


def fell_between(boot: datetime, began: datetime | None, ended: datetime | None) -> bool:
    """Whether the machine went down under it: what ended before that has an exit code of its own."""
    return began is not None and ended is not None and began < boot < ended


def unexplained(state: Mapping[str, Any]) -> bool:
    return not state.get("Running") and not state.get("Paused") and state.get("ExitCode") != 0 and not state.get("OOMKilled")


def container_of(listed: Mapping[str, Any]) -> Container:
    names = listed.get("Names") or [""]
    return Container(str(listed["Id"]), str(names[0]).lstrip("/"), str(listed.get("State", "")).lower(), listed.get("Labels") or {})


def moment(text: Any) -> datetime | None:
    """A daemon's time has nine figures behind the point, and Python takes six."""
    if not isinstance(text, str) or text.startswith(LONG_AGO):
        return None
    try:
        return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text)).astimezone(UTC)
    except ValueError:
        return None
