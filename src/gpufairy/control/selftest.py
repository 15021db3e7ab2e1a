"""The isolation self-test: two sessions on one idle GPU, each trying to get more than its share. What it found is written down.

One at a time. Its sessions end with it whatever happens; those of a server that was killed end when the next one starts.
"""
import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import TypeAlias

from gpufairy.control.bell import rung
from gpufairy.control.door import ask_to_stop, check_engine
from gpufairy.control.house import House
from gpufairy.control.registry import Caller, is_admin
from gpufairy.control.selftest_inside import Inside
from gpufairy.core.admit import check_ever_fits
from gpufairy.core.amounts import show_duration
from gpufairy.core.errors import Conflict, FairyError, NoSuchThing
from gpufairy.core.isolation import Side, judged, overall
from gpufairy.core.lifecycle import Phase
from gpufairy.core.names import nearest
from gpufairy.core.node import Gpu, Node
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.people import User
from gpufairy.core.selftest_due import Busy, is_due, shares_to_take
from gpufairy.core.session import Request, Session, SessionKind, Wanted
from gpufairy.core.share import Share
from gpufairy.core.sharing import MEMORY, SM, IsolationTest, sharing_of
from gpufairy.core.steps import event

log = logging.getLogger("gpufairy.selftest")

START_LIMIT = timedelta(minutes=5)  # its image may have to be fetched
END_LIMIT = timedelta(minutes=1)
FIRST_LOOKS, PAUSE_S = 75, 0.2  # 15 s in all: a driver that is loaded by being asked takes ten
IDLE_LIMIT = timedelta(seconds=20)  # a program that has just ended stays on its GPU for some seconds, and is seen there a little longer
LONGEST = timedelta(hours=1)  # its sessions end by themselves then, whatever becomes of us
SETTLING = timedelta(minutes=3)  # after the start: whoever has just set up a server wants its GPUs first
AGAIN_AFTER = timedelta(minutes=10)  # a GPU that was busy is looked at again
AGAIN_IF_BROKEN = timedelta(hours=20)  # one on which the test itself failed: the next night, for what was in its way may be gone
CPUS_MILLI, MEMORY_BYTES = 1000, 4 * 2**30  # for the probe and its children: a CUDA context is some 300 MiB of main memory
# What the one holds while the other tries, so that both are there. Not more: on a full GPU nobody gets through, held to a share or not.
A_LITTLE_BYTES = 64 * 2**20
SLEEP = "__import__('time').sleep(4000)"


@dataclass(frozen=True, slots=True)
class NotTested:
    node: str
    gpu: str
    why: str
    busy: bool = False  # it may go later


Found: TypeAlias = IsolationTest | NotTested
News: TypeAlias = str | IsolationTest | NotTested
Tell: TypeAlias = Callable[[News], None]


class IsolationSelftest:
    def __init__(
        self, house: House, *, python: str | None = "/opt/fairy/bin/python3", nightly: time | None = None,
        here: Callable[[datetime], datetime] = datetime.astimezone,
    ) -> None:  # fmt: skip
        """`python`: our own inside sessions; None: there is none, since sessions are processes of the machine.
        `here`: a time by the clock on the wall."""
        self._house, self._python, self._nightly, self._here = house, python, nightly, here
        self._task: asyncio.Task[list[Found]] | None = None
        self._began = house.clock()
        self._left_alone: dict[str, datetime] = {}  # GPUs that could not be tested by ourselves: until when

    @property
    def under_way(self) -> bool:
        return self._task is not None and not self._task.done()

    def begin(
        self, asker: User, wanted: Sequence[str] | None, tell: Tell, *, patience: timedelta = IDLE_LIMIT
    ) -> asyncio.Task[list[Found]]:
        """All real GPUs, or those of these UUIDs. It goes on if whoever asked has gone. Raises NoSuchThing, Conflict.
        `patience`: in all, with GPUs that no session holds and that are in use."""
        if self.under_way:
            raise Conflict("a self-test is under way", "Wait for it: `fairy selftest show` has its results then.")
        chosen = self._chosen(wanted)
        self._task = asyncio.create_task(self._test_all(asker, chosen, tell, patience), name="isolation self-test")
        return self._task

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def end_leftovers(self) -> None:
        """Those of a server that did not live to end them. No user can ask for one GPU by its UUID: it is how they are known."""
        left = [session for session in self._house.book if session.request.on_gpu is not None and session.wanted is Wanted.RUN]
        if left:
            await ask_to_stop(self._house, left, "gpufairy", "left over from a self-test that was cut short")

    async def look(self) -> None:
        """One turn of a loop: GPUs that were never tested as they are shared now, or not this night. None that is in use."""
        now, tests = self._house.clock(), {(test.gpu, test.sharing): test for test in self._house.shares.tests()}
        if self._python is None or now - self._began < SETTLING or (self._task is not None and not self._task.done()):
            return
        due = [gpu.uuid for _, gpu in self._real() if is_due(gpu, tests, self._here(now), self._nightly) and self._may_try(gpu, now)]
        admin = next((user for user in self._house.registry.users() if is_admin(user)), None)
        if not due or admin is None:
            return
        # Without patience: it comes by again, and whoever asks for a test meanwhile should not find it waiting.
        for found in await self.begin(admin, due, lambda news: log.debug("%s", news), patience=timedelta()):
            if isinstance(found, NotTested):
                self._left_alone[found.gpu] = now + (AGAIN_AFTER if found.busy else AGAIN_IF_BROKEN)
                log.info("the self-test left out GPU %s: %s", found.gpu, found.why)

    def _may_try(self, gpu: Gpu, now: datetime) -> bool:
        return self._left_alone.get(gpu.uuid, now) <= now

    def _real(self) -> list[tuple[Node, Gpu]]:
        return [(node, gpu) for node in self._house.nodes for gpu in node.gpus if not gpu.simulated]

    def _chosen(self, wanted: Sequence[str] | None) -> list[tuple[Node, Gpu]]:
        there = {gpu.uuid: (node, gpu) for node in self._house.nodes for gpu in node.gpus}
        for uuid in wanted or ():
            if uuid not in there:
                raise NoSuchThing(f"no GPU {uuid[:60]!r} here{nearest(uuid, there)}", "See `fairy share` for their UUIDs.")
            if there[uuid][1].simulated:
                raise Conflict(f"GPU {uuid} is simulated: there is nothing to test", "Test a real one.")
        chosen = self._real() if wanted is None else [there[uuid] for uuid in wanted]
        if chosen and self._python is None:
            found = "sessions are plain processes here: nothing holds them to a share, so there is nothing to test"
            raise Conflict(found, "Run them in containers: --engine docker.")
        return chosen

    async def _test_all(self, asker: User, chosen: Sequence[tuple[Node, Gpu]], tell: Tell, patience: timedelta) -> list[Found]:
        found: list[Found] = []
        until = self._house.clock() + patience
        for node, gpu in chosen:
            tell(f"GPU {gpu.index} of {node.name}, {gpu.kind}")
            shares = await self._idle(node, gpu, tell, until)
            if isinstance(shares, Busy):
                found.append(NotTested(node.name, gpu.uuid, f"untried: {shares.why}", busy=True))
            else:
                found.append(await self._test(asker, node, gpu, shares, tell))
            tell(found[-1])
        return found

    async def _idle(self, node: Node, gpu: Gpu, tell: Tell, until: datetime) -> tuple[Share, ...] | Busy:
        """What may be taken of it, as soon as nobody is on it any more."""
        said = ""
        while True:
            shares = self._free(node, gpu, await self._first_look(node))
            if not isinstance(shares, Busy) or not shares.may_pass or self._house.clock() >= until:
                return shares
            if shares.why != said:
                said = shares.why
                tell(f"waiting until GPU {gpu.index} is idle: {said}")
            await asyncio.sleep(PAUSE_S)

    async def _test(self, asker: User, node: Node, gpu: Gpu, shares: Sequence[Share], tell: Tell) -> Found:
        sessions: list[Session] = []
        try:
            sessions = await self._submitted(asker, gpu, shares)
            tell(f"starting {len(sessions)} sessions")
            running = [await self._running(session) for session in sessions]
            sides = await self._tried([self._inside(session, gpu) for session in running], tell)
            return await self._written(node, gpu, sides)
        except FairyError as error:
            return NotTested(node.name, gpu.uuid, f"untried: {error.detail}")
        finally:
            await self._ended(sessions)

    def _free(self, node: Node, gpu: Gpu, sample: NodeSample | None) -> tuple[Share, ...] | Busy:
        room = self._house.cluster().rooms().get(node.name)
        free = next((one for one in room.gpus if one.gpu.uuid == gpu.uuid), None) if room is not None else None
        return Busy("it is no longer there") if free is None else shares_to_take(free, sample)

    async def _first_look(self, node: Node) -> NodeSample | None:
        """Who is on its GPUs: a server that has just begun has not read that yet. None: it is not known."""
        for _ in range(FIRST_LOOKS):
            seen = self._house.watch.host(node.name)
            if seen is not None and seen.sample is not None:
                return None if seen.silent else seen.sample
            await asyncio.sleep(PAUSE_S)
        return None

    async def _submitted(self, asker: User, gpu: Gpu, shares: Sequence[Share]) -> list[Session]:
        house, now, mark = self._house, self._house.clock(), secrets.token_hex(3)
        assert self._python is not None
        sessions = []
        for letter, share in zip("ab", shares, strict=False):
            request = Request(
                share, (self._python, "-I", "-c", SLEEP), CPUS_MILLI, MEMORY_BYTES, time_limit=LONGEST, on_gpu=gpu.uuid,
            )  # fmt: skip
            check_ever_fits(request, house.nodes)
            request = await house.gallery.chosen(Caller(asker, "full"), request, house.nodes)
            check_engine(house, request)
            sessions.append(Session(
                id=secrets.token_hex(10), name=f"selftest-{mark}-{letter}", owner=asker.name, team=asker.team, kind=SessionKind.BATCH,
                request=request, submitted_at=now, since=now,
            ))  # fmt: skip
        events = [event(session, "submitted", now, "submitted for a self-test", actor=asker.name) for session in sessions]
        return await house.add(sessions, events, None)

    async def _running(self, session: Session) -> Session:
        found = await self._waited(session, (Phase.RUNNING, Phase.ENDED), START_LIMIT)
        if found.phase is not Phase.RUNNING:
            why = found.why or "it waits"
            raise Conflict(f"session {found.name} did not start in {show_duration(START_LIMIT)}: it is {found.state}, {why}")
        return found

    async def _waited(self, session: Session, phases: tuple[Phase, ...], limit: timedelta) -> Session:
        """As it is when it has come so far, or when the time is up."""
        with self._house.bells.listen(session.id) as bell, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit.total_seconds()):
                while True:
                    bell.clear()
                    session = self._house.book.get(session.id) or await self._house.store.sessions.get(session.id) or session
                    if session.phase in phases or self._house.bells.leaving.is_set():
                        break
                    await rung(bell, limit.total_seconds())
        return session

    def _inside(self, session: Session, gpu: Gpu) -> Inside:
        assert self._python is not None
        others = [other.uuid for _, other in self._real() if other.uuid != gpu.uuid]
        return Inside(self._house.engine, session, self._python, others)

    async def _tried(self, both: Sequence[Inside], tell: Tell) -> list[Side]:
        """Each tries all while the other has a little; then each has all it can get, and both must get their own."""
        if len(both) == 1:
            return [await both[0].probe(tell)]
        first, second = both
        sides = []
        for one, other in ((first, second), (second, first)):
            async with other.holding(A_LITTLE_BYTES):
                sides.append(await one.probe(tell))
        for one, other in ((first, second), (second, first)):
            tell(f"{one.session.name}: its own share, while the other has all of its own")
            async with other.holding(other.gpu.memory_bytes):
                sides.append(Side(one.held, sides[0].facts, (await one.own_share(),)))
        return sides

    async def _written(self, node: Node, gpu: Gpu, sides: Sequence[Side]) -> IsolationTest:
        house = self._house
        test = IsolationTest(node.name, gpu.uuid, sharing_of(gpu), house.clock(), judged(sides), sides[0].facts.driver)
        await house.shares.tested(test)
        await house.look_at_nodes()
        words = ", ".join(f"{what} {overall(test, what)}" for what in (MEMORY, SM))
        log.info("self-test of GPU %s on %s, shared by %s: %s", gpu.uuid, node.name, test.sharing, words)
        return test

    async def _ended(self, sessions: Sequence[Session]) -> None:
        """Told to stop in every case; and waited for, so that the GPU is free for whoever is next."""
        await ask_to_stop(self._house, sessions, "gpufairy", "the self-test is over")
        for session in sessions:
            await self._waited(session, (Phase.ENDED,), END_LIMIT)
