"""One GPU's daemon over time: what was promised on it, how long nobody held it or heard it, and what was told of it already."""
import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path

from gpufairy.core.errors import FairyError
from gpufairy.devices.mps_changes import Change, changes
from gpufairy.devices.mps_control import MpsNobody, MpsRefused, MpsSilent
from gpufairy.devices.mps_daemon import MpsDaemon, MpsSetting, marks_of
from gpufairy.devices.mps_values import Caps, Heard, HeldShare, MpsEvent, MpsLook, MpsNews, MpsStatus, largest
from gpufairy.devices.mps_words import (
    IN_FAULT,
    LOST_CONTEXTS,
    NO_ANSWER,
    NOT_REVIVED,
    ONE_USER_AT_A_TIME,
    not_answering,
    not_started,
    programs,
    still_used,
)
from gpufairy.devices.process_mark import ProcessMark, lives

SILENT_LOOKS = 3  # in a row, before a silent daemon that nobody uses is killed
LONGEST_WAIT_S = 60.0  # between two tries to start a daemon that does not stay
SOUND_S = 60.0  # a daemon that ran for so long was sound: the next one is started at once


class MpsKeeper:
    def __init__(self, gpu: str, setting: MpsSetting) -> None:
        self.gpu, self._setting, self._daemon = gpu, setting, MpsDaemon(gpu, setting)
        self._lock = asyncio.Lock()
        self._promises: list[tuple[float, Caps]] = []  # until when, on the steady clock
        self._heard = MpsLook(Heard.NOBODY)  # the last answer
        self._programs: tuple[ProcessMark, ...] | None = None  # that used it then; None: never heard
        self._idle_since_s: float | None = None
        self._silent_since_s: float | None = None
        self._silent_looks = self._failures = 0
        self._started_s = self._next_try_s = float("-inf")
        self._told: set[str] = set()  # words that hold still: news is told once
        self._went_round: frozenset[int] = frozenset()
        self._named: frozenset[int] = frozenset()  # those of them that were told of
        self._trouble = ""
        self._is_lost = False  # it died, and is not back
        self._lingering: tuple[int, ...] = ()  # programs that use it though nobody holds a share

    @property
    def is_over(self) -> bool:
        return self._daemon.note is None and not self._promises

    async def ready(self, caps: Caps) -> Path:
        async with self._lock:
            try:
                await self._daemon.bring_up(largest([caps, *self._promised()]) or caps)
            except MpsSilent as error:
                raise not_answering(self.gpu, error.detail) from error
            except (MpsNobody, MpsRefused) as error:
                raise not_started(self.gpu, error.detail) from error
            self._remember()
            self._daemon.refuse_newcomer()
            self._promises.append((self._setting.clock() + self._setting.grace_s, caps))
            self._idle_since_s = None
            return self._daemon.door

    async def turn(self, shares: Sequence[HeldShare], on_gpu: Collection[int] | None) -> list[MpsNews]:
        """`on_gpu`: without MPS's own servers; None: not known."""
        async with self._lock:
            wanted = largest([*(share.caps for share in shares), *self._promised()])
            try:
                found = await self._unheld(on_gpu) if wanted is None else await self._held(wanted, on_gpu)
            except FairyError as error:
                found = self._trouble_with(MpsEvent.NOT_ENDED if wanted is None else MpsEvent.NOT_RESTARTED, error)
            sessions = tuple(share.session_id for share in shares)
            return [MpsNews(self.gpu, event, words, sessions) for event, words in found]

    async def give_up(self) -> None:
        """At once, without grace. Raises EngineRefused while programs use it."""
        async with self._lock:
            if self._daemon.note is None:
                return
            look = await self._daemon.look()
            if look.heard is Heard.SILENCE:
                raise not_answering(self.gpu, look.why)
            if look.clients:
                raise still_used(self.gpu, look.clients)
            self._promises.clear()  # a session that gets it whole does so because nobody holds a part of it any more
            if not await self._daemon.end():
                raise not_answering(self.gpu, "it was told to quit, and still runs")
            self._forget()

    def status(self) -> MpsStatus:
        daemon, note = self._daemon, self._daemon.note
        mark = daemon.mark
        one_user = note is not None and not note.multiuser
        trouble = "; ".join(part for part in (self._trouble, ONE_USER_AT_A_TIME if one_user else "") if part)
        return MpsStatus(
            self.gpu, str(daemon.door), mark.pid if mark else None, self._heard.servers, self._heard.clients, daemon.limit,
            daemon.caps, note.since_time if note else None, one_user, trouble, self._closed(), self._stays(),
        )  # fmt: skip

    def _closed(self) -> str:
        if self._silent_since_s is not None:
            return NO_ANSWER
        if self._is_lost:
            return NOT_REVIVED
        if any(server.at_fault for server in self._heard.servers):
            return IN_FAULT
        limit = self._daemon.limit
        return f"{limit} programs use it by MPS, the most that it takes" if len(self._heard.clients) >= limit else ""

    def _stays(self) -> str:
        if self._silent_since_s is not None:
            return NO_ANSWER
        return f"its MPS daemon is still in use by {programs(self._lingering)}" if self._lingering else ""

    async def _held(self, wanted: Caps, on_gpu: Collection[int] | None) -> list[Change]:
        self._idle_since_s, self._lingering = None, ()
        await self._daemon.prepare()
        before = self._heard
        look = await self._daemon.look()
        if look.heard is Heard.NOBODY:
            return await self._mend(wanted)
        if look.heard is Heard.SILENCE:
            return await self._bear_silence(wanted, look, on_gpu)
        found = self._heard_again()
        found += changes(self.gpu, before, look, limit=self._daemon.limit, living=[mark.pid for mark in self._living()])
        await self._daemon.open_gpu()
        if await self._daemon.hold_caps(wanted):
            found.append((MpsEvent.CAPS_CHANGED, f"somebody changed the caps of the MPS daemon of GPU {self.gpu}; they are set back"))
        self._remember()
        found += self._going_round(on_gpu or ())
        return found

    async def _unheld(self, on_gpu: Collection[int] | None) -> list[Change]:
        """Never ended while programs use it: they may be of a session that is not told of here yet."""
        if self._daemon.note is None:
            return []
        now_s = self._setting.clock()
        self._idle_since_s = now_s if self._idle_since_s is None else self._idle_since_s
        look = await self._daemon.look()
        if look.heard is Heard.SILENCE:
            self._count_silence(look)
        elif self._silent_since_s is not None:
            self._silent_since_s, self._silent_looks, self._trouble = None, 0, ""
        if look.heard is Heard.ANSWER:
            self._remember()
        if look.heard is Heard.NOBODY:
            self._heard = look  # what it was full of, or at fault with, went with it
        self._lingering = look.clients
        if now_s - self._idle_since_s < self._setting.grace_s:
            return []
        if look.heard is Heard.SILENCE and self._may_kill(on_gpu):
            await self._daemon.kill()
        elif look.heard is Heard.SILENCE:
            return self._once(MpsEvent.NOT_ENDED, f"nobody holds a share of GPU {self.gpu}, and its MPS daemon does not answer")
        if look.clients:
            words = f"nobody holds a share of GPU {self.gpu}, and it is still in use by {programs(look.clients)}: its MPS daemon stays"
            return self._once(MpsEvent.STILL_USED, words)
        if not await self._daemon.end():
            return self._once(MpsEvent.NOT_ENDED, f"the MPS daemon of GPU {self.gpu} was told to quit, and still runs")
        self._forget()
        return [(MpsEvent.ENDED, f"nobody holds a share of GPU {self.gpu}: its MPS daemon was ended")]

    async def _mend(self, wanted: Caps, befell: str = "was dead") -> list[Change]:
        """Restarted at once if it was sound before; else after a wait that doubles."""
        now_s = self._setting.clock()
        if now_s < self._next_try_s:
            return []
        was_there = self._daemon.note is not None and self._daemon.note.pid is not None
        hurt = [mark.pid for mark in self._living()]
        self._failures = 0 if now_s - self._started_s > SOUND_S else self._failures + 1
        self._next_try_s = now_s + (min(2.0**self._failures, LONGEST_WAIT_S) if self._failures else 0.0)
        self._started_s = now_s
        self._is_lost = self._is_lost or was_there
        await self._daemon.bring_up(wanted)
        found = self._heard_again()
        self._remember()
        if not was_there:
            return found
        words = f"the MPS daemon of GPU {self.gpu} {befell} and is started anew."
        return [*found, (MpsEvent.RESTARTED, f"{words} {LOST_CONTEXTS} ({programs(hurt)})" if hurt else words)]

    async def _bear_silence(self, wanted: Caps, look: MpsLook, on_gpu: Collection[int] | None) -> list[Change]:
        """What runs goes on computing without the daemon. So it is killed only when nobody is hurt, or the admin wants it so."""
        self._count_silence(look)
        if self._may_kill(on_gpu):
            await self._daemon.kill()
            self._heard_again()
            return await self._mend(wanted, "did not answer, was killed")
        words = f"the MPS daemon of GPU {self.gpu} does not answer. Programs that run go on; new ones may wait or fail until it does."
        return self._once(MpsEvent.SILENT, words)

    def _count_silence(self, look: MpsLook) -> None:
        now_s = self._setting.clock()
        self._silent_since_s = now_s if self._silent_since_s is None else self._silent_since_s
        self._trouble = f"no answer for {now_s - self._silent_since_s:.0f} s: {look.why}"
        self._silent_looks += 1

    def _may_kill(self, on_gpu: Collection[int] | None) -> bool:
        limit_s = self._setting.silent_limit_s
        if limit_s is not None and self._silent_since_s is not None and self._setting.clock() - self._silent_since_s >= limit_s:
            return True
        return self._silent_looks >= SILENT_LOOKS and self._is_deserted(on_gpu)

    def _is_deserted(self, on_gpu: Collection[int] | None) -> bool:
        """A server that came when the daemon already hung never heard who uses it: then the driver says who is on the GPU."""
        return not self._living() if self._programs is not None else on_gpu is not None and not on_gpu

    def _heard_again(self) -> list[Change]:
        was_silent = self._silent_since_s is not None
        self._silent_since_s, self._silent_looks, self._trouble = None, 0, ""
        self._told.clear()
        return [(MpsEvent.ANSWERS_AGAIN, f"the MPS daemon of GPU {self.gpu} answers again")] if was_silent else []

    def _going_round(self, on_gpu: Collection[int]) -> list[Change]:
        """Seen twice, since the two lists are not of the same moment; told once, for it may stay for days."""
        ours = {*self._heard.clients, *(server.pid for server in self._heard.servers)}
        before, self._went_round = self._went_round, frozenset(on_gpu) - ours
        strangers = sorted((self._went_round & before) - self._named)
        self._named = (self._named & self._went_round) | frozenset(strangers)
        if not strangers:
            return []
        words = (
            f"{programs(strangers)} on GPU {self.gpu} went round MPS: no share binds it. "
            "Either its CUDA_MPS_PIPE_DIRECTORY names another folder, or it began while no daemon was there."
        )
        return [(MpsEvent.WENT_ROUND, words)]

    def _trouble_with(self, event: MpsEvent, error: FairyError) -> list[Change]:
        self._trouble = f"{error.detail}. {error.next_step}".strip()
        return self._once(event, self._trouble)

    def _once(self, event: MpsEvent, words: str) -> list[Change]:
        if words in self._told:
            return []
        self._told.add(words)
        return [(event, words)]

    def _promised(self) -> list[Caps]:
        now_s = self._setting.clock()
        self._promises = [(until_s, caps) for until_s, caps in self._promises if until_s > now_s]
        return [caps for _, caps in self._promises]

    def _remember(self) -> None:
        self._heard, self._is_lost = self._daemon.seen, False
        self._programs = marks_of(self._heard.clients)

    def _living(self) -> list[ProcessMark]:
        return [mark for mark in self._programs or () if lives(mark)]

    def _forget(self) -> None:
        self._heard, self._programs, self._idle_since_s, self._trouble = MpsLook(Heard.NOBODY), None, None, ""
        self._silent_since_s, self._silent_looks, self._is_lost, self._lingering = None, 0, False, ()
        self._told.clear()
