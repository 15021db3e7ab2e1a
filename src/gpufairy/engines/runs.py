"""Which workloads of the process engine run, begin or are over: read from run folders and /proc, noticed by descriptors.

Kept in memory is only what can never change (labels, verdicts, what a live shim has claimed); all else is looked up.
"""
import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpufairy.core.session import Session
from gpufairy.core.workload import Workload, WorkloadId, WorkloadState
from gpufairy.engines.pidfd import Watched, watch_child, watch_other
from gpufairy.engines.proc import boot_id, group_exists, left_behind, pids_by_sid, sids_by_variable, working_in
from gpufairy.engines.run_folder import (
    Claim,
    NoClaim,
    Places,
    read_claim,
    read_exit,
    read_label,
    remove_run,
    take_claim,
    why_over,
    workload_id_of,
)
from gpufairy.engines.strays import TOKEN_FILE, Strays
from gpufairy.engines.streams import DescriptorStream

SOON_S = 0.02  # when a look right after a change may have come too early
LONGEST_SOON_S = 1.0
YOUNG_S, AGAIN_S = 2.0, 0.5  # the shim may not have come to its command yet; by then it has


@dataclass(slots=True, eq=False)
class Live:
    """A workload whose shim is watched."""

    name: str
    watched: Watched
    cpus: frozenset[int] = frozenset()  # that it is pinned to
    seen: Workload | None = None  # once its claim is read: never changes while it lives
    kill_timer: asyncio.TimerHandle | None = None
    beside: list[DescriptorStream] = field(default_factory=list)
    watched_since_s: float = field(default_factory=time.monotonic)
    left_sids: set[int] = field(default_factory=set)  # of commands run beside it that ended and may have left something running
    door_told: bool = False  # others than this server may open something in it, or may have done so

    @property
    def sids(self) -> set[int]:
        return {self.watched.pid, *(stream.pid for stream in self.beside), *self.left_sids}

    def signal(self, number: int, beside: int) -> None:
        self.watched.signal_group(number)
        for stream in self.beside:
            stream.signal_group(beside)

    def ask_to_leave(self, grace_s: float) -> None:
        """SIGTERM, then SIGKILL. A shell that is just forking its command loses a signal, so one that has only begun is asked twice."""
        loop = asyncio.get_running_loop()
        self.signal(signal.SIGTERM, beside=signal.SIGHUP)
        if self.kill_timer is None:
            self.kill_timer = loop.call_later(grace_s, self.kill)
            if time.monotonic() - self.watched_since_s < YOUNG_S:
                loop.call_later(min(AGAIN_S, grace_s), self.signal, signal.SIGTERM, signal.SIGHUP)

    def kill(self) -> None:
        self.signal(signal.SIGKILL, signal.SIGKILL)


class Runs:
    def __init__(self, places: Places, node_name: str, on_gone: Callable[[str], None]) -> None:
        self.live: dict[str, Live] = {}
        self.launching: dict[str, frozenset[int]] = {}  # being launched right now, and the CPUs chosen for them
        self.strays = Strays()
        self.changed: Callable[[], None] = lambda: None
        self._places = places
        self._node_name = node_name
        self._on_gone = on_gone
        self._boot = boot_id()
        self._over: dict[str, Workload] = {}
        self._labels: dict[str, Session | None] = {}

    def look_at_all(self) -> list[Workload]:
        with os.scandir(self._places.runs) as entries:
            names = {entry.name for entry in entries if not entry.name.startswith(".")}
        for gone in (self._labels.keys() | self._over.keys()) - names:
            self.forget(gone)
        return [workload for name in sorted(names) if (workload := self.look(name)) is not None]

    def look(self, name: str) -> Workload | None:
        """None: no such workload, or one that has not begun and now never will."""
        if (over := self._over.get(name)) is not None:
            return over
        live = self.live.get(name)
        if live is not None and live.seen is not None:
            return live.seen
        run, known_id = self._places.run(name), workload_id_of(name)
        if known_id is None or not run.is_dir():
            return None
        if name in self.launching:
            return Workload(known_id, self._node_name, WorkloadState.STARTING)
        claim = read_claim(run)
        if isinstance(claim, Claim):
            return self._look_claimed(name, known_id, claim)
        if live is not None or (claim is NoClaim.UNFINISHED and working_in(str(run))):
            return Workload(known_id, self._node_name, WorkloadState.STARTING, session=self.label(name))
        if claim is NoClaim.UNFINISHED:
            return self._verdict(name, known_id, claim)
        try:
            return None if self.made_void(name) else self.look(name)
        except OSError:  # a full disk: not to be decided now
            return Workload(known_id, self._node_name, WorkloadState.STARTING, session=self.label(name))

    def _look_claimed(self, name: str, known_id: WorkloadId, claim: Claim) -> Workload:
        live = self.live.get(name)
        if live is None or live.watched.pid != claim.pid:  # another server's child, or a late shim that was faster than ours
            live = self._adopt(name, claim)
        stuck = live is None and claim.boot == self._boot and left_behind(claim.pid, claim.start_ticks)
        if live is None and not stuck:
            return self._verdict(name, known_id, claim)
        why = "its first process is gone; what it left behind is being ended" if stuck else ""
        seen = Workload(
            known_id, self._node_name, WorkloadState.RUNNING, why=why, started_at=claim.at, pid=claim.pid, session=self.label(name)
        )  # fmt: skip
        if live is not None:
            live.seen = seen
        else:
            self.strays.add(claim.pid)
            self.strays.add_token_file(self._token_file(name))  # nobody looks for orphans of one that counts as running
        return seen

    def _verdict(self, name: str, known_id: WorkloadId, claim: Claim | NoClaim) -> Workload:
        run = self._places.run(name)
        began = claim.at if isinstance(claim, Claim) else None
        why, code = why_over(run, claim, self._boot), read_exit(run)
        self._over[name] = Workload(
            known_id, self._node_name, WorkloadState.EXITED, exit_code=code, why=why, started_at=began, session=self.label(name)
        )  # fmt: skip
        return self._over[name]

    def pins(self) -> Iterator[frozenset[int]]:
        yield from self.launching.values()
        yield from (live.cpus for live in self.live.values())

    def alive(self, name: str) -> bool:
        found = self.look(name)
        return found is not None and found.alive

    def label(self, name: str) -> Session | None:
        if name not in self._labels:
            self._labels[name] = read_label(self._places.run(name))
        return self._labels[name]

    def made_void(self, name: str) -> bool:
        """Whether the run of that folder has not begun and, by our hand, never will."""
        run = self._places.run(name)
        if name in self.live or not (take_claim(run) or read_claim(run) is NoClaim.VOID):
            return False
        remove_run(run)
        self.forget(name)
        return True

    def forget(self, name: str) -> None:
        self._over.pop(name, None)
        self._labels.pop(name, None)

    def begin(self, name: str, session: Session, pid: int, cpus: frozenset[int]) -> None:
        """Watch a shim just spawned."""
        live = Live(name, watch_child(pid, lambda _: self._gone(live)), cpus)
        self.live[name] = live
        self._labels[name] = session
        self._check_begun_in(live, SOON_S)

    def _check_begun_in(self, live: Live, pause_s: float) -> None:
        """Nothing tells us when the shim has claimed its run, so look a little later, and then less and less often."""
        asyncio.get_running_loop().call_later(pause_s, self._check_begun, live, pause_s)

    def _check_begun(self, live: Live, pause_s: float) -> None:
        if self.live.get(live.name) is not live or live.seen is not None:
            return
        if (found := self.look(live.name)) is None or found.state is not WorkloadState.STARTING:
            self.changed()
        else:
            self._check_begun_in(live, min(LONGEST_SOON_S, pause_s * 2))

    def _adopt(self, name: str, claim: Claim) -> Live | None:
        if claim.boot != self._boot:
            return None
        watched = watch_other(claim.pid, claim.start_ticks, lambda _: self._gone(live))
        if watched is None:
            return None
        live = Live(name, watched, door_told=True)
        with contextlib.suppress(OSError):
            live.cpus = pins_of(claim.pid)
        self.live[name] = live
        return live

    def _gone(self, live: Live) -> None:
        if self.live.get(live.name) is live:
            del self.live[live.name]
        if live.kill_timer is not None:
            live.kill_timer.cancel()
        for stream in live.beside:
            stream.signal_group(signal.SIGKILL)
        for sid in live.sids:
            self.strays.add(sid)
        if live.door_told:
            self.strays.add_token_file(self._token_file(live.name))
        self._on_gone(live.name)
        if group_exists(live.watched.pid):  # killed, and not gone yet
            asyncio.get_running_loop().call_later(SOON_S, self._tell)
        self.changed()

    def _tell(self) -> None:
        self.changed()

    def beside_gone(self, live: Live, stream: DescriptorStream) -> None:
        """What it left running (`nohup train &`) may go on as long as the session does."""
        live.beside.remove(stream)
        if self.live.get(live.name) is live:
            live.left_sids.add(stream.pid)

    async def look_at_left(self) -> None:
        """Drop the numbers of sessions with nobody left in them, before they come to mean somebody else."""
        if not any(live.left_sids for live in self.live.values()):
            return
        asked = {sid for live in self.live.values() for sid in live.left_sids}
        running = await asyncio.to_thread(pids_by_sid)
        for live in self.live.values():
            live.left_sids -= asked - running.keys()

    async def adopt_beside(self) -> None:
        """What earlier servers and others opened beside live workloads, told by the token file that it was given."""
        names = {self._token_file(name): name for name, live in self.live.items() if live.door_told}
        if not names:
            return
        for token_file, sids in (await asyncio.to_thread(sids_by_variable, TOKEN_FILE)).items():
            live = self.live.get(names.get(token_file, ""))
            if live is not None:
                live.left_sids |= sids - {live.watched.pid}

    async def find_orphans(self) -> None:
        """What was left by sessions that ended while no server looked after them."""
        ours = os.fsencode(self._places.runs) + b"/"
        for token_file in await asyncio.to_thread(sids_by_variable, TOKEN_FILE):
            if token_file.startswith(ours) and not self.alive(os.fsdecode(token_file[len(ours) :]).partition("/")[0]):
                self.strays.add_token_file(token_file)

    def _token_file(self, name: str) -> bytes:
        return os.fsencode(self._places.run(name) / "token")

    def close(self) -> None:
        """Watch no longer. All that runs goes on."""
        self.changed = lambda: None
        for live in self.live.values():
            live.watched.close()
            if live.kill_timer is not None:
                live.kill_timer.cancel()
            for stream in live.beside:
                stream.unwatch()
        self.live.clear()


def pins_of(pid: int) -> frozenset[int]:
    """The CPUs it is pinned to; none when it may run on all that we may."""
    cpus = frozenset(os.sched_getaffinity(pid))
    return cpus if len(cpus) < len(os.sched_getaffinity(0)) else frozenset()
