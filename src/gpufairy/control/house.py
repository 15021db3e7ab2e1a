"""House: what the loops and the edges share. Every write of a session goes through here, so that store, book and bells agree."""
import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from gpufairy.control.agents import Agents
from gpufairy.control.bell import Bells
from gpufairy.control.book import Book
from gpufairy.control.bookings import Bookings
from gpufairy.control.clock import Clock
from gpufairy.control.cuts import Cuts
from gpufairy.control.deeds import Deeds
from gpufairy.control.gallery import OPEN_RULES, Gallery
from gpufairy.control.keyring import Keyring
from gpufairy.control.notices import About, Notices
from gpufairy.control.quotas import Quotas
from gpufairy.control.registry import Registry
from gpufairy.control.shares import Shares
from gpufairy.control.teams import Teams
from gpufairy.control.watch import Watch
from gpufairy.core.cluster import Cluster, Policy
from gpufairy.core.explain import Outlook, outlook
from gpufairy.core.floor import Floor
from gpufairy.core.free_now import fit_to_use
from gpufairy.core.image import ImageRules
from gpufairy.core.ledger import Usage, added, charged_to, hold_ended
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import Gpu, Node, NodeState
from gpufairy.core.plan import Plan
from gpufairy.core.run_time import RunTimes
from gpufairy.core.session import IdleStep, Request, Session
from gpufairy.core.steps import Change, Event
from gpufairy.core.track_record import TrackRecord
from gpufairy.core.uids import NO_UIDS_YET, Uids
from gpufairy.core.workload import WorkloadId
from gpufairy.engines.contract import Engine
from gpufairy.store.sessions import IdempotencyKey
from gpufairy.store.store import Store

PLACES_COUNTED = 2000  # how far down the line places are counted: beyond, nobody cares for the exact figure
ENDED_READ = 5000  # sessions, at the start: made-up names avoid theirs, and run times are learnt from them
OUTLOOK_AGE_S = 1.0  # a picture of the line this old is still told to people
OUTLOOK_RESTS = 20  # times as long as it took to make: looking ahead takes no more of the server than a twentieth


class House:
    def __init__(
        self, store: Store, engine: Engine, clock: Clock, policy: Policy, secret: bytes, *,
        uids: Uids = NO_UIDS_YET, images: ImageRules = OPEN_RULES,
    ) -> None:  # fmt: skip
        self.store, self.engine, self.clock, self.policy = store, engine, clock, policy
        self.book, self.bells = Book(), Bells()
        self.deeds = Deeds(self.bells.converge.set)
        self.registry = Registry(store.people, clock, secret, self.book.get, uids)
        self.keyring = Keyring(store.people)
        self.gallery = Gallery(store.images, engine.shelf, clock, images)
        self.registry.on_change = self.keyring.on_change = self.bells.people_changed
        self.teams = Teams(store.teams, self.registry, clock)
        self.quotas = Quotas(store.teams, self.registry, self.teams, clock)
        self.shares = Shares(store.shares)
        self.bookings = Bookings(store.bookings, clock)
        self.cuts = Cuts(store.meta)
        self.placing = asyncio.Lock()  # from a plan until its seats are written: nobody sets GPUs aside in between
        self.agents = Agents(store.agents, clock, lambda: {node.name for node in self.nodes})
        self.watch = Watch(clock, lambda: [agent.name for agent in self.agents.accepted()])
        self.nodes: tuple[Node, ...] = ()
        self._found: list[Node] = []  # as the engine last told; kept while it is silent
        self.notices = Notices()
        self.asked_to_leave: dict[WorkloadId, datetime] = {}  # by this server, and heard by the engine
        self.silent_since: datetime | None = None  # the engine's last failure to answer; None: it answers
        self.plan = Plan((), {}, (), clock())
        self.floor = Floor()
        self._usage: dict[str, Usage] = {}
        self.run_times, self.track_record = RunTimes(), TrackRecord()
        self._outlook: Outlook | None = None
        self._outlook_age_s = OUTLOOK_AGE_S

    async def move_in(self) -> None:
        """Reads what the store knows. Nothing runs or ends by this."""
        await self.registry.load()
        await self.keyring.load()
        await self.gallery.load()
        await self.agents.load()
        await self.teams.load()
        await self.quotas.load()
        await self.shares.load()
        await self.bookings.load()
        await self.cuts.load()
        self._usage = await self.store.sessions.usage()
        asked: list[Request] = []  # oldest first: a floor learns the mix from what was asked for before
        for ended in reversed(await self.store.sessions.page(owner=None, states=[Phase.ENDED], name=None, limit=ENDED_READ, after=None)):
            self.book.remember_name(ended)
            self.run_times.ended(ended)
            asked.append(ended.request)
        for session in await self.store.sessions.live():
            self.book.put(session)
            if session.idle_step is not IdleStep.NONE:
                self.notices.tell(session.id, About.IDLE, session.why)
        self.floor = Floor(asked + [session.request for session in self.book.holding()])
        await self.look_at_nodes()

    async def look_at_nodes(self) -> None:
        drained = await self.store.nodes.drained()
        if self.silent_since is None:
            self._found = await self.engine.nodes()
        self.nodes = tuple(self._judged(self.shares.applied(self.cuts.applied(node)), drained.get(node.name)) for node in self._found)

    def found_nodes(self) -> tuple[Node, ...]:
        """As the engine told of them, before admins had their say."""
        return tuple(self._found)

    def _judged(self, node: Node, drained_why: str | None) -> Node:
        if self.silent_since is not None:
            return replace(node, state=NodeState.SILENT, state_why=f"no answer since {self.silent_since:%H:%M:%S}")
        if drained_why is not None:
            return replace(node, state=NodeState.DRAINED, state_why=drained_why)
        seen = self.watch.host(node.name)
        return node if seen is None or seen.sample is None else fit_to_use(node, seen.sample)

    def found_gpu(self, uuid: str) -> Gpu | None:
        """As the engine tells it, whatever was changed about it since."""
        return next((gpu for node in self._found for gpu in node.gpus if gpu.uuid == uuid), None)

    def node_of(self, session_id: str) -> str | None:
        """Where a live session has its seat."""
        session = self.book.get(session_id)
        return None if session is None or session.seat is None else session.seat.node

    def cluster(self) -> Cluster:
        """One picture of now. Good until the next await: the queues in it are the book's own."""
        return Cluster(
            self.nodes,
            tuple(self.book.holding()),
            self.book.queues,
            self._usage,
            self.policy,
            gangs=self.book.gangs(),
            run_times=self.run_times,
            calendar=self.bookings.calendar(self.book.holding()),
            weights=self.teams.weights(),
            quotas=self.quotas.all(),
            week=self.quotas.week,
        )

    def outlook(self) -> Outlook:
        now = self.clock()
        if self._outlook is None or (now - self._outlook.made_at).total_seconds() > self._outlook_age_s:
            began_s = time.monotonic()
            self._outlook = outlook(self.cluster(), self.plan, now, PLACES_COUNTED, self.track_record)
            self.track_record.noted(self._outlook.starts, now)
            self._outlook_age_s = max(OUTLOOK_AGE_S, OUTLOOK_RESTS * (time.monotonic() - began_s))
        return self._outlook

    async def add(self, sessions: Sequence[Session], events: Sequence[Event], key: IdempotencyKey | None) -> list[Session]:
        added_now = await self.store.sessions.add(sessions, events, key)
        for session in added_now:
            if self.book.get(session.id) is None:  # a repeated request is answered with what was made then
                self.book.put(session)
        self._ring(added_now)
        return added_now

    async def save(self, changes: Sequence[Change]) -> list[Change]:
        """Writes them, each only if its session is still as it was; returns those that took."""
        if not changes:
            return []
        took = await self.store.sessions.save(changes)
        for change in took:
            self.book.put(change.after)
            if change.after.phase is Phase.PLACED:
                self.track_record.started(change.after.id, change.after.since)
            elif change.after.phase is Phase.ENDED:
                self.run_times.ended(change.after)
                self.track_record.ended(change.after.id)
            if (hold := hold_ended(change)) is not None:
                self.quotas.week.add_hold(hold)
                for name in charged_to(change.before):
                    self._usage[name] = added(self._usage.get(name), hold, self.policy.half_life, self.policy.entry_penalty)
        if len(took) < len(changes):
            written = {change.before.id for change in took}
            for session_id in {change.before.id for change in changes} - written:
                await self._read_again(session_id)
        self._ring([change.after for change in took])
        return took

    async def _read_again(self, session_id: str) -> None:
        """Somebody was faster: what the store has counts."""
        session, known = await self.store.sessions.get(session_id), self.book.get(session_id)
        if session is not None and (known is None or session.revision > known.revision) and (known or session.phase is not Phase.ENDED):
            self.book.put(session)

    def _ring(self, sessions: Sequence[Session]) -> None:
        self.bells.sessions_changed([session.id for session in sessions])
        if any(session.id in self.book.active for session in sessions):
            self.bells.converge.set()
        if any(session.phase in (Phase.QUEUED, Phase.ENDED) for session in sessions):
            self.bells.place.set()
        if self.book.held_back and any(session.phase is Phase.ENDED or session.id in self.book.held_back for session in sessions):
            self.bells.admit.set()
