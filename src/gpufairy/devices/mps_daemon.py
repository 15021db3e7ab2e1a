"""The MPS daemon of one GPU: started on first need, found again, kept at its caps, mended, ended. One caller at a time: see mps.py."""
import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from gpufairy.devices.mps_changes import caps_hold
from gpufairy.devices.mps_control import MpsControl, MpsNobody, MpsSilent, told_caps
from gpufairy.devices.mps_folder import SHORT_FOLDER, make_folder, open_door, pipe_folder
from gpufairy.devices.mps_note import MpsNote, forget_note, read_note, running_daemon, write_note
from gpufairy.devices.mps_values import Caps, Heard, MpsLook, largest
from gpufairy.devices.mps_words import at_fault, limit_reached, not_answering, not_started
from gpufairy.devices.process_mark import ProcessMark, kill, lives, mark_of

ComputeMode = Callable[[str, bool], Awaitable[None]]
LOOK_AGAIN_S = 0.05  # while it starts or ends
UP_S = 2.0  # a sound one answers when the program that started it is back
GONE_S = 8.0  # a daemon that was told to quit looks for its last program each 6.4 s at most
ALREADY_RUNS = "already running"


async def leave_compute_mode(gpu: str, exclusive: bool) -> None:
    """For machines where it may not be changed: a program that goes round MPS then gets the whole GPU."""


@dataclass(frozen=True, slots=True)
class MpsSetting:
    folder: Path
    program: str = "nvidia-cuda-mps-control"
    compute_mode: ComputeMode = leave_compute_mode
    client_limit: Callable[[str], int] = lambda gpu: 48  # Volta to Hopper; newer GPUs take 60
    grace_s: float = 60.0  # with nobody on the GPU, before its daemon is ended: the next session often comes at once
    silent_limit_s: float | None = None  # after which a silent daemon is killed though programs may use it; None: never
    answer_s: float = 3.0  # a sound daemon answers in 2 ms
    short_folder: Path = SHORT_FOLDER  # of pipes whose path would be too long for a socket
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


class MpsDaemon:
    def __init__(self, gpu: str, setting: MpsSetting) -> None:
        self.gpu, self._setting = gpu, setting
        self.folder = setting.folder / gpu
        self.pipe = pipe_folder(setting.folder, gpu, setting.short_folder)
        self.door = self.pipe.with_name("door")
        self._control = MpsControl(setting.program, gpu, self.pipe, self.folder / "log", setting.answer_s)
        self.note = read_note(self.folder)
        self.seen = MpsLook(Heard.NOBODY)  # the last that was heard
        self.caps: Caps | None = None
        self._memory_limit = ""  # of the caps, as the daemon tells it
        self._is_exclusive = False  # whether this process has seen to it

    @property
    def limit(self) -> int:
        return self._setting.client_limit(self.gpu)

    @property
    def mark(self) -> ProcessMark | None:
        """Of the daemon's process, if it lives."""
        written = self.note.mark if self.note is not None else None
        return written if written is not None and lives(written) else running_daemon(self.pipe)

    async def look(self) -> MpsLook:
        """A daemon that lives and that nobody can reach is silent, not dead: its programs still compute."""
        look = await self._control.look()
        if look.heard is Heard.NOBODY and (mark := self.mark) is not None:
            look = replace(look, heard=Heard.SILENCE, why=f"process {mark.pid} runs, but {look.why}")
        self.seen = look
        return look

    async def prepare(self) -> None:
        """Write first, change second: whoever comes after a crash finds the note, and puts the compute mode back or goes on."""
        make_folder(self.folder)
        make_folder(self.pipe)
        make_folder(self.door)
        make_folder(self.folder / "log")
        if self.note is None:
            self._write(MpsNote(self.gpu))
        if not self._is_exclusive:
            await self._setting.compute_mode(self.gpu, True)
            self._is_exclusive = True

    async def bring_up(self, caps: Caps) -> None:
        """Until it answers, a server holds the GPU, and the caps are at least these: others may hold more than whoever asks here.

        Raises EngineRefused and the errors of mps_control.
        """
        await self.prepare()
        look = await self.look()
        if look.heard is Heard.SILENCE:
            raise not_answering(self.gpu, look.why)
        known = self.caps or told_caps(look)
        if look.heard is Heard.NOBODY:
            await self._start(caps)
            known = None
        await self.open_gpu()
        await self.hold_caps(largest([caps, known] if known else [caps]) or caps)

    def refuse_newcomer(self) -> None:
        for server in self.seen.servers:
            if server.at_fault:
                raise at_fault(self.gpu, server.clients)
        if len(self.seen.clients) >= self.limit:
            raise limit_reached(self.gpu, len(self.seen.clients), self.limit)

    async def hold_caps(self, caps: Caps) -> bool:
        """By the last look. Returns whether somebody else had changed them."""
        if self.caps == caps and caps_hold(self.seen, caps, self._memory_limit):
            return False
        was_changed = self.caps == caps
        self._memory_limit = await self._control.cap_defaults(caps)
        for server in self.seen.servers:
            await self._control.cap_server(server.pid, caps)
        self.caps = caps
        await self.look()
        return was_changed

    async def kill(self) -> None:
        """One that does not answer. Its server ends with it, and so does CUDA in all its programs."""
        mark = self.mark
        if mark is not None:
            kill(mark)
            await self._gone(mark)

    async def end(self) -> bool:
        """Of one that no program uses. False: it was told to, and still runs."""
        mark = self.mark
        if self.seen.heard is Heard.ANSWER:
            with contextlib.suppress(MpsNobody, MpsSilent):  # whether it went is seen by its process
                await self._control.quit()
        if mark is not None and not await self._gone(mark):
            return False
        await self._setting.compute_mode(self.gpu, False)
        forget_note(self.folder)
        self.note, self.caps, self._is_exclusive, self.seen = None, None, False, MpsLook(Heard.NOBODY)
        return True

    async def _start(self, caps: Caps) -> None:
        """First as one server for all accounts; a driver that does not know how says so by doing nothing."""
        if not await self._started(caps, multiuser=True) and not await self._started(caps, multiuser=False):
            raise not_started(self.gpu, "it printed how it is used")

    async def _started(self, caps: Caps, *, multiuser: bool) -> bool:
        self._write(MpsNote(self.gpu, multiuser=multiuser))
        try:
            answer = await self._control.start(caps, multiuser=multiuser)
        except MpsSilent as error:
            raise not_started(self.gpu, error.detail) from error
        if ALREADY_RUNS in answer.text:
            raise not_answering(self.gpu, f"another one holds {self.pipe} and does not listen there")
        if answer.code != 0:
            raise not_started(self.gpu, f"code {answer.code}, {answer.text[:300]!r}")
        if answer.text and (await self.look()).heard is Heard.NOBODY:
            return False
        if not await self._answers():
            raise not_started(self.gpu, f"it does not answer: {self.seen.why}")
        self.caps = None  # a new daemon has its own idea of them
        note = MpsNote(self.gpu, since=self._setting.now().isoformat(), multiuser=multiuser)
        mark = running_daemon(self.pipe)
        self._write(note if mark is None else replace(note, pid=mark.pid, start_ticks=mark.start_ticks))
        return True

    async def open_gpu(self) -> None:
        """A server before the first program: without one, a program that goes round MPS would get the GPU, and keep all others out."""
        open_door(self.pipe, self.door)
        if self.seen.servers or (self.note is not None and not self.note.multiuser):
            return
        await self._control.start_server(os.geteuid())
        if not (await self.look()).servers:
            raise not_started(self.gpu, f"its server does not come up; {self.folder}/log/server.log says why")

    async def _answers(self) -> bool:
        deadline_s = time.monotonic() + UP_S
        while (await self.look()).heard is not Heard.ANSWER:
            if time.monotonic() > deadline_s:
                return False
            await asyncio.sleep(LOOK_AGAIN_S)
        return True

    async def _gone(self, mark: ProcessMark) -> bool:
        deadline_s = time.monotonic() + GONE_S
        while lives(mark):
            if time.monotonic() > deadline_s:
                return False
            await asyncio.sleep(LOOK_AGAIN_S)
        return True

    def _write(self, note: MpsNote) -> None:
        write_note(self.folder, note)
        self.note = note


def marks_of(pids: tuple[int, ...]) -> tuple[ProcessMark, ...]:
    return tuple(mark for pid in pids if (mark := mark_of(pid)) is not None)
