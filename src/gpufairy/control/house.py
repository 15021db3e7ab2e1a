"""House: what the loops and the edges share. Every write of a session goes through here, so that store, book and bells agree."""
import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from gpufairy.control.agents import Agents
from gpufairy.control.ahead import Ahead
from gpufairy.control.bell import Bells
from gpufairy.control.book import Book
from gpufairy.control.bookings import Bookings
from gpufairy.control.classes import Classes
from gpufairy.control.clock import Clock
from gpufairy.control.counted import CountedGpus
from gpufairy.control.cuts import Cuts
from gpufairy.control.deeds import Deeds
from gpufairy.control.disk import DiskUse
from gpufairy.control.gallery import OPEN_RULES, Gallery
from gpufairy.control.insight import Insight
from gpufairy.control.keyring import Keyring
from gpufairy.control.leak_notes import LeakNotes
from gpufairy.control.maintenance import Maintenance
from gpufairy.control.notices import About, Notices
from gpufairy.control.pools import Pools
from gpufairy.control.quotas import Quotas
from gpufairy.control.registry import Registry
from gpufairy.control.ruled_nodes import RuledNodes
from gpufairy.control.shares import Shares
from gpufairy.control.streams import Streams
from gpufairy.control.teams import Teams
from gpufairy.control.watch import Watch
from gpufairy.core import failpoints
from gpufairy.core.cluster import Cluster, Policy
from gpufairy.core.explain import Outlook, outlook
from gpufairy.core.floor import Floor
from gpufairy.core.free_now import fit_to_use
from gpufairy.core.image import ImageRules
from gpufairy.core.ledger import Usage, added, charged_to, hold_ended
from gpufairy.core.lifecycle import Phase
from gpufairy.core.limits import Refusals
from gpufairy.core.maintenance import state_words
from gpufairy.core.node import Gpu, Node, NodeState
from gpufairy.core.others import beside_others, has_others, held_on
from gpufairy.core.past import Past
from gpufairy.core.plan import Plan
from gpufairy.core.run_time import RunTimes
from gpufairy.core.session import IdleStep, Request, Session
from gpufairy.core.steps import Change, Event
from gpufairy.core.tariff import NO_TARIFF
from gpufairy.core.track_record import TrackRecord
from gpufairy.core.uids import NO_UIDS_YET, Uids
from gpufairy.core.workload import WorkloadId
from gpufairy.engines.contract import Engine
from gpufairy.store.sessions import IdempotencyKey
from gpufairy.store.store import Store

PLACES_COUNTED = 2000  # how far down the line places are counted: beyond, nobody cares for the exact figure
ENDED_READ = 5000  # sessions, at the start: made-up names avoid theirs, and run times are learnt from them


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
        self.maintenance = Maintenance(store.maintenance, clock)
        self.bookings.closed = lambda: self.maintenance.bookings(self.nodes)
        self.cuts = Cuts(store.meta)
        self.classes = Classes(store.classes, clock)
        self.pools = Pools(store.pools, clock)
        self.disk = DiskUse(store.disk, clock, self.registry.users, self.quotas.all)
        self._ruled = RuledNodes(self.cuts, self.shares)
        self.tariff = NO_TARIFF
        self.refusals = Refusals()
        self.streams = Streams(self.refusals)
        self.placing = asyncio.Lock()  # from a plan until its seats are written: nobody sets GPUs aside in between
        elsewhere = engine.name == "kubernetes"  # no node of a cluster is the server's own host: each has its agent
        self.agents = Agents(store.agents, clock, lambda: set() if elsewhere else {node.name for node in self.nodes})
        self.disk.watched = lambda: {agent.name for agent in self.agents.accepted()}
        self.counted = CountedGpus(self.book.get)
        self.watch = Watch(clock, lambda: [agent.name for agent in self.agents.accepted()])
        self.insight = Insight(store.history, self.watch, clock)
        self.nodes: tuple[Node, ...] = ()
        self.with_coming: tuple[Node, ...] = ()  # and those that would come if somebody were given a seat there
        self._found: list[Node] = []  # as the engine last told; kept while it is silent
        self._nodes_version = 0
        self.notices, self.leak_notes = Notices(), LeakNotes()
        self.asked_to_leave: dict[WorkloadId, datetime] = {}  # by this server, and heard by the engine
        self.silent_since: datetime | None = None  # the engine's last failure to answer; None: it answers
        self.plan = Plan((), {}, (), clock())
        self.floor = Floor()
        self._usage: dict[str, Usage] = {}
        self.run_times, self.track_record = RunTimes(), TrackRecord()
        self.ahead = Ahead(clock, self._look_ahead, lambda: self.bells.changes)

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
        await self.maintenance.load()
        await self.cuts.load()
        await self.classes.load()
        await self.pools.load()
        await self.disk.load()
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
            self._nodes_version = self.engine.nodes_version
            self._found = await self.engine.nodes()
        self.counted.look(self._found)
        ruled = self._ruled.all(self._found)
        held = held_on(self.book.holding()) if any(has_others(node) for node in ruled) else {}
        seen = tuple(self._judged(beside_others(node, held.get(node.name, ())), drained.get(node.name)) for node in ruled)
        self.nodes = tuple(node for node in seen if node.coming_s is None)
        self.with_coming = self.nodes if len(self.nodes) == len(seen) else seen

    async def hear_of_nodes(self) -> None:
        """Before anybody is placed: others than sessions may have taken something in this very second."""
        if self.engine.nodes_version != self._nodes_version:
            await self.look_at_nodes()

    def found_nodes(self) -> tuple[Node, ...]:
        """As the engine told of them, before admins had their say."""
        return tuple(self._found)

    def _judged(self, node: Node, drained_why: str | None) -> Node:
        if self.silent_since is not None:
            return replace(node, state=NodeState.SILENT, state_why=f"no answer since {self.silent_since:%H:%M:%S} UTC")
        if drained_why is not None:
            return replace(node, state=NodeState.DRAINED, state_why=drained_why)
        now = self.clock()
        if (window := self.maintenance.running(node.name, now)) is not None:
            return replace(node, state=NodeState.DRAINED, state_why=state_words(window, now))
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
            self.with_coming,
            tuple(self.book.holding()),
            self.book.queues,
            self._usage,
            self.policy,
            gangs=self.book.gangs(),
            run_times=self.run_times,
            calendar=self.bookings.calendar(self.book.holding(), and_closed=True),
            weights=self.teams.weights(),
            quotas=self.quotas.all(),
            week=self.quotas.week,
        )

    def outlook(self, since: datetime | None = None) -> Outlook:
        return self.ahead.outlook(since)

    def _look_ahead(self, now: datetime) -> Outlook:
        found = outlook(self.cluster(), self.plan, now, PLACES_COUNTED, self.track_record)
        self.track_record.noted(found.starts, now)
        return found

    async def add(self, sessions: Sequence[Session], events: Sequence[Event], key: IdempotencyKey | None) -> list[Session]:
        failpoints.passing_events("before", events)
        added_now = await self.store.sessions.add(sessions, events, key)
        failpoints.passing_events("after", events)
        for session in added_now:
            if self.book.get(session.id) is None:  # a repeated request is answered with what was made then
                self.book.put(session)
        self._ring(added_now)
        return added_now

    async def save(self, changes: Sequence[Change]) -> list[Change]:
        """Writes them, each only if its session is still as it was; returns those that took."""
        if not changes:
            return []
        failpoints.passing_events("before", (event for change in changes for event in change.events))
        took = await self.store.sessions.save(changes)
        failpoints.passing_events("after", (event for change in took for event in change.events))
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

    async def take_past(self, pasts: Sequence[Past]) -> int:
        """What is over, of another server: kept, and learnt from as if it had been here. How many were new."""
        new = await self.store.sessions.add_past(pasts)
        for past in new:
            self.book.remember_name(past.session)
            self.run_times.ended(past.session)
            for hold in past.holds:
                self.quotas.week.add_hold(hold)
        if new:
            self._usage = await self.store.sessions.usage()
            self.bells.place.set()
        return len(new)

    async def _read_again(self, session_id: str) -> None:
        """Somebody was faster: what the store has counts."""
        session, known = await self.store.sessions.get(session_id), self.book.get(session_id)
        if session is not None and (known is None or session.revision > known.revision) and (known or session.phase is not Phase.ENDED):
            self.book.put(session)

    def _ring(self, sessions: Sequence[Session]) -> None:
        self.bells.sessions_changed([session.id for session in sessions], {session.owner for session in sessions})
        if any(session.id in self.book.active for session in sessions):
            self.bells.converge.set()
        if any(session.phase in (Phase.QUEUED, Phase.ENDED) for session in sessions):
            self.bells.place.set()
        if self.book.held_back and any(session.phase is Phase.ENDED or session.id in self.book.held_back for session in sessions):
            self.bells.admit.set()
