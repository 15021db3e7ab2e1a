"""The cluster: every host and GPU as a picture, what is free now, who waits, what hosts are dead and since when."""
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

from gpufairy.control.house import House
from gpufairy.control.watch import Seen
from gpufairy.core.booking import LEAD, Booking, Calendar
from gpufairy.core.cluster import Cluster
from gpufairy.core.explain import Outlook
from gpufairy.core.holders import Holder, holders_by_gpu
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import Node, NodeState
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.room import GpuRoom, Room
from gpufairy.core.share import PARTS
from gpufairy.web.cluster_filter import Filter
from gpufairy.web.gauges import size_words
from gpufairy.web.gpu_bars import Host, Looked, bar, kinds
from gpufairy.web.speech import _, ngettext
from gpufairy.web.times import clock, counted_gpus, figure_of
from gpufairy.web.told_here import told_here
from gpufairy.web.watched_hosts import AWAITED, WATCHED, WatchedGpu, up_words, watched_gpus, watched_host, watched_state

NOT_TOLD: Mapping[str, str] = MappingProxyType({})
STATES = (NodeState.READY, NodeState.DRAINED, NodeState.FAULTY, NodeState.SILENT, WATCHED, AWAITED)


@dataclass(frozen=True, slots=True)
class Picture:
    """What every host is drawn from."""

    chosen: Filter
    looked: Looked
    holders: Mapping[str, list[Holder]]
    seen: Mapping[str, Seen]
    shown: Collection[str] | None  # the hosts whose GPUs are drawn; None: all

    def skips(self, name: str) -> bool:
        return self.shown is not None and name not in self.shown


@dataclass(frozen=True, slots=True)
class ClusterPage:
    answer: str
    next_step: str
    free: str
    gpus: int
    running: int
    waiting: int
    next_start: str  # `14:20`; empty: nobody waits, or nobody can tell
    used_today: str  # `61 %`; empty: not known
    hosts: tuple[Host, ...]
    hidden_hosts: int
    kinds: tuple[str, ...]
    pools: tuple[str, ...]
    states: tuple[tuple[str, str], ...]  # in words
    simulated: bool


def cluster_page(
    house: House, user: str, chosen: Filter, *, used_today: float | None, records: Mapping[str, str],
    there: Mapping[str, str] = NOT_TOLD, shown: Collection[str] | None = None,
) -> ClusterPage:  # fmt: skip
    """`records`: of silent hosts, how long they were there of late. `there`: of those with agents, for what part of a month.
    `shown`: the hosts whose GPUs are drawn; None: all."""
    cluster, now, view = house.cluster(), house.clock(), house.outlook()
    seen = {one.node: one for one in house.watch.hosts()}
    rooms = cluster.rooms()
    looked = looked_at(cluster, [one.sample for one in seen.values() if one.sample is not None and not one.silent], user, now)
    picture = Picture(chosen, looked, holders_by_gpu(cluster.holding), seen, shown)
    ours = [our_host(rooms[node.name], picture) for node in cluster.nodes if chosen.takes_host(node.name, node.pool or "", node.state)]
    apart = [one for name, one in seen.items() if name not in rooms]
    watched = [watched_shown(one, picture) for one in apart if chosen.takes_host(one.node, "", watched_state(one))]
    hosts = tuple(with_record(one, records, there) for one in (*ours, *watched) if one is not None)
    return ClusterPage(
        *answers(cluster, rooms, view, now),
        used_today="" if used_today is None else f"{100 * used_today:.0f}",
        hosts=hosts,
        hidden_hosts=len(cluster.nodes) + len(apart) - len(hosts),
        kinds=tuple(sorted({gpu.kind for node in cluster.nodes for gpu in node.gpus} | watched_kinds(apart))),
        pools=tuple(sorted({node.pool for node in cluster.nodes if node.pool})),
        states=states_there(cluster.nodes, apart),
        simulated=any(gpu.simulated for node in cluster.nodes for gpu in node.gpus),
    )


def answers(cluster: Cluster, rooms: Mapping[str, Room], view: Outlook, now: datetime) -> tuple[str, str, str, int, int, int, str]:
    ready = [room for room in rooms.values() if room.node.state is NodeState.READY]
    open_gpus = [gpu for room in ready for gpu in room.gpus if gpu.free_parts > 0]
    free, gpus = sum(gpu.free_parts for gpu in open_gpus) / PARTS, sum(len(node.gpus) for node in cluster.nodes)
    waiting = sum(len(queue) for queue in cluster.waiting.values())
    starts = [start.typical for start in view.starts.values() if start.typical is not None]
    next_start = clock(max(min(starts), now), now) if starts and waiting else ""
    running = sum(session.phase is Phase.RUNNING for session in cluster.holding)
    return answer(free, gpus), next_step(open_gpus, gpus, next_start), figure_of(free), gpus, running, waiting, next_start


def answer(free: float, gpus: int) -> str:
    if not gpus:
        return _("There is no GPU here.")
    if not free:
        return _("No GPU is free now.")
    words = ngettext("{free} of {gpus} GPU is free now.", "{free} of {gpus} GPUs are free now.", gpus)
    return words.format(free=figure_of(free), gpus=gpus)


def next_step(open_gpus: Sequence[GpuRoom], gpus: int, next_start: str) -> str:
    if not gpus:
        return _("Sessions run on CPUs all the same: ask for 0 GPUs.")
    if not open_gpus:
        start = _("The next start is at about {time}.").format(time=next_start) if next_start else _("Nobody waits.")
        return " ".join((start, _("Ask now, and yours waits its turn; or ask for a preemptible one.")))
    whole = sum(gpu.is_free for gpu in open_gpus)
    if whole:
        return ngettext("{gpus} is wholly free.", "{gpus} are wholly free.", whole).format(gpus=counted_gpus(whole))
    largest = max(open_gpus, key=lambda gpu: gpu.free_parts)
    memory = size_words(largest.free_memory_bytes)
    return _("No whole one; the largest part is {gpus} with {memory}.").format(
        gpus=counted_gpus(largest.free_parts / PARTS), memory=memory
    )


def looked_at(cluster: Cluster, samples: Sequence[NodeSample], user: str, now: datetime) -> Looked:
    readings = {reading.uuid: reading for sample in samples for reading in sample.readings}
    used: dict[tuple[str, str, str], int] = {}
    outside: dict[str, dict[str, None]] = {}
    for sample in samples:
        for process in sample.processes:
            owner, on = process.owner, process.on
            if owner.session is not None and owner.user is not None:
                key = on.uuid, owner.user, owner.session
                used[key] = used.get(key, 0) + (on.memory_bytes or 0)
            elif owner.outside:
                outside.setdefault(on.uuid, {})[owner.user or _("somebody unknown")] = None
    words = {uuid: _("{names} on it without holding it").format(names=", ".join(names)) for uuid, names in outside.items()}
    return Looked(user, now, readings, used, words, booked_words(cluster.calendar, now))


def booked_words(calendar: Calendar, now: datetime) -> dict[str, str]:
    """Of each GPU the booking that runs, else the next within a day."""
    found: dict[str, str] = {}
    for booking in calendar.bookings:  # by their start
        if booking.start - now <= LEAD:
            for gpu in booking.gpus:
                found.setdefault(gpu, booking_words(booking, now))
    return found


def booking_words(booking: Booking, now: datetime) -> str:
    if booking.runs(now):
        return _("booked until {time}: {title}").format(time=clock(booking.end, now), title=booking.title)
    return _("booked from {time}: {title}").format(time=clock(booking.start, now), title=booking.title)


def our_host(room: Room, picture: Picture) -> Host | None:
    """None: it has no GPU that is asked for."""
    node, chosen, holders = room.node, picture.chosen, picture.holders
    skipped = picture.skips(node.name)
    if skipped and not chosen.of_gpus:
        return Host(node.name, (), "", False, (), skipped=True)
    taken = [gpu for gpu in room.gpus if takes(picture, gpu, node)]
    if chosen.of_gpus and not taken:
        return None
    if skipped:
        return Host(node.name, (), "", False, (), skipped=True)
    seen = picture.seen.get(node.name)
    return Host(
        node.name, kinds(node), trouble_words(room, holders), node.state is NodeState.SILENT,
        tuple(bar(gpu, holders.get(gpu.gpu.uuid, []), picture.looked) for gpu in taken),
        up=up_words(None if seen is None or seen.silent else seen.sample), pool=node.pool or "", state=node.state,
        state_word="" if node.state is NodeState.READY else state_words(node.state), hidden=len(room.gpus) - len(taken),
    )  # fmt: skip


def takes(picture: Picture, gpu: GpuRoom, node: Node) -> bool:
    free = gpu.free_parts > 0 and node.state is NodeState.READY
    mine = any(holder.owner == picture.looked.user for holder in picture.holders.get(gpu.gpu.uuid, []))
    return picture.chosen.takes_gpu(gpu.gpu.kind, free=free, mine=mine)


def trouble_words(room: Room, holders: Mapping[str, list[Holder]]) -> str:
    node = room.node
    if node.state is NodeState.READY:
        return ""
    there = {(one.owner, one.session) for gpu in room.gpus for one in holders.get(gpu.gpu.uuid, [])}
    found = told_here(node.state_why).rstrip(".")
    running = ngettext("{count} session goes on there", "{count} sessions go on there", len(there)).format(count=len(there))
    if node.state is NodeState.SILENT:
        why = _("No answer for a while ({why}).").format(why=found)
        return " ".join((why, _("{sessions}, as far as we know; nothing new starts.").format(sessions=running)))
    if node.state is NodeState.DRAINED:
        return _("Taken out of use: {why}. {sessions}; nothing new starts.").format(why=found, sessions=running)
    return _("{why}. {sessions}; nothing new starts.").format(why=found, sessions=running)


def watched_shown(seen: Seen, picture: Picture) -> Host | None:
    sample, skipped = None if seen.silent else seen.sample, picture.skips(seen.node)
    if skipped and not picture.chosen.of_gpus:
        return Host(seen.node, (), "", False, (), skipped=True)
    gpus = [] if sample is None else [one for one in watched_gpus(sample) if takes_watched(picture.chosen, one)]
    if picture.chosen.of_gpus and not gpus:
        return None
    if skipped:
        return Host(seen.node, (), "", False, (), skipped=True)
    made = watched_host(seen, gpus, picture.looked.now)
    return replace(made, state_word="" if made.state == WATCHED else state_words(made.state))


def takes_watched(chosen: Filter, gpu: WatchedGpu) -> bool:
    """What is on such a host was handed out to nobody, so nothing there is the reader's own."""
    return chosen.takes_gpu(gpu.device.kind, free=gpu.now.free is True, mine=False)


def with_record(one: Host, records: Mapping[str, str], there: Mapping[str, str]) -> Host:
    now = records.get(one.name, one.up) if one.silent else one.up
    up = " · ".join(words for words in (now, there.get(one.name, "")) if words)
    return one if one.skipped or up == one.up else replace(one, up=up)


def watched_kinds(apart: Sequence[Seen]) -> set[str]:
    samples = [one.sample for one in apart if one.sample is not None]
    return {device.kind for sample in samples for device in sample.devices if device.parent is None}


def states_there(nodes: Sequence[Node], apart: Sequence[Seen]) -> tuple[tuple[str, str], ...]:
    there = {*(str(node.state) for node in nodes), *map(watched_state, apart)}
    return tuple((str(state), state_words(state)) for state in STATES if state in there)


def state_words(state: str) -> str:
    return {
        NodeState.READY: _("ready"), NodeState.DRAINED: _("drained"), NodeState.FAULTY: _("faulty"), NodeState.SILENT: _("silent"),
        WATCHED: _("watched"), AWAITED: _("awaited"),
    }.get(state, state)  # fmt: skip

