"""Which GPUs a booking gets, and whether it can be: what is asked, against the other bookings, what there is and who sits on it."""
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpufairy.core.amounts import show_duration, shown
from gpufairy.core.booking import LEAD, Booking, clock_words, gpus_of, is_among
from gpufairy.core.errors import BadInput, Conflict, NeverFits, NotAllowed
from gpufairy.core.fit import is_kind
from gpufairy.core.node import Gpu, Node, NodeState
from gpufairy.core.session import Session

LONGEST_TITLE = 80  # characters: it is shown in one line, to everybody
MOST_AT_ONCE = 4096  # GPUs of one booking: more is a slip of the keyboard
SLACK = timedelta(minutes=2)  # "from now" is a moment ago when it arrives
BUSY_NAMED = 3  # bookings in one error


@dataclass(frozen=True, slots=True)
class Limits:
    """What people may book. Admins are bound by `longest_by_admin` alone."""

    users: bool = True  # whether any but admins may
    most_gpus: int = 4  # that one user may have booked for the same time
    most_ahead: timedelta = timedelta(days=30)
    longest: timedelta = timedelta(days=7)
    longest_by_admin: timedelta = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class BookingAsk:
    """What somebody wants to book."""

    title: str
    made_by: str
    who: tuple[str, ...]
    count: int
    start: datetime
    end: datetime
    gpu_kind: str | None = None
    pool: str | None = None
    node: str | None = None
    by_admin: bool = False

    @property
    def length(self) -> timedelta:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Offer:
    """A GPU that could be booked."""

    node: Node
    gpu: Gpu
    disturbs: int  # sessions that would still be on it at the start, as far as limits tell


def make_booking(
    ask: BookingAsk, booking_id: str, *, nodes: Sequence[Node], bookings: Sequence[Booking], holding: Sequence[Session],
    limits: Limits, now: datetime,
) -> Booking:  # fmt: skip
    """`bookings`: all that are not over. Raises in words what is wrong, and when it would be right."""
    ask = replace(ask, start=max(ask.start, now) if now - ask.start <= SLACK else ask.start)
    check_asked(ask, now)
    check_limits(ask, bookings, limits, now)
    gpus = choose(ask, nodes, bookings, holding, now)
    return Booking(booking_id, ask.title, ask.made_by, ask.who, tuple(one.gpu.uuid for one in gpus), ask.start, ask.end, now)


def check_asked(ask: BookingAsk, now: datetime) -> None:
    if not ask.title or not ask.title.isprintable() or len(ask.title) > LONGEST_TITLE:
        found = f"title: {shown(ask.title)} is not one line of 1 to {LONGEST_TITLE} characters"
        raise BadInput(found, "Say what it is for, such as CS231n; everybody sees it.")
    if not 1 <= ask.count <= MOST_AT_ONCE:
        raise BadInput(f"gpus: {ask.count} asked; a booking is of 1 to {MOST_AT_ONCE} whole GPUs", "Write how many, such as 4.")
    if not ask.who:
        raise BadInput("a booking is for somebody, and nobody is named", "Name users or a team.")
    if ask.start < now:
        ago = show_duration(now - ask.start)
        raise BadInput(f"from: {full_words(ask.start)} was {ago} ago", "Give a time to come; without a zone it is yours.")
    if ask.end <= ask.start:
        raise BadInput(f"until: {full_words(ask.end)} is not after {full_words(ask.start)}", "Give a later end, or a length: --for 2h.")


def check_limits(ask: BookingAsk, bookings: Iterable[Booking], limits: Limits, now: datetime) -> None:
    if not ask.by_admin and not limits.users:
        raise NotAllowed("bookings are made by admins here", "Ask one of them.")
    longest = limits.longest_by_admin if ask.by_admin else limits.longest
    if ask.length > longest:
        found = f"it is for {show_duration(ask.length)}, and a booking may be for {show_duration(longest)}"
        raise BadInput(found, "Book less, or one after the other.") if ask.by_admin else NotAllowed(found, "Book less, or ask an admin.")
    if ask.by_admin:
        return
    if ask.start - now > limits.most_ahead:
        found = f"it begins in {show_duration(ask.start - now)}, and users may book {show_duration(limits.most_ahead)} ahead"
        raise NotAllowed(found, "Book it later, or ask an admin.")
    mine = [one for one in bookings if one.made_by == ask.made_by and one.overlaps(ask.start, ask.end)]
    booked = max((booked_at(mine, at) for at in (ask.start, *(one.start for one in mine)) if at >= ask.start), default=0)
    if booked + ask.count > limits.most_gpus:
        have = f", and {booked} booked for that time already" if booked else ""
        found = f"{ask.count} GPUs asked{have}; a user may have {limits.most_gpus} at a time"
        raise NotAllowed(found, "Ask for fewer, or ask an admin.")


def booked_at(bookings: Iterable[Booking], at: datetime) -> int:
    return sum(len(one.gpus) for one in bookings if one.runs(at))


def choose(
    ask: BookingAsk, nodes: Sequence[Node], bookings: Sequence[Booking], holding: Sequence[Session], now: datetime
) -> tuple[Offer, ...]:
    """Those free of bookings then; of them those that send the fewest away, of one kind and on one node where that can be."""
    there = offers(ask, nodes, holding)
    if len(there) < ask.count:
        raise NeverFits(f"{ask.count} {asked_words(ask)} asked, and there are {len(there)}", "Ask for fewer; see `fairy free`.")
    usable = [one for one in there if one.node.state in (NodeState.READY, NodeState.SILENT)]
    if len(usable) < ask.count:
        out = sorted({f"{one.node.name} is {one.node.state}" for one in there if one not in usable})
        found = f"{ask.count} {asked_words(ask)} asked, and {len(usable)} of {len(there)} are in use here: {', '.join(out)}"
        raise Conflict(found, "Ask for fewer, or an admin when it is back.")
    taken = {gpu for one in bookings if one.overlaps(ask.start, ask.end) for gpu in one.gpus}
    free = [one for one in usable if one.gpu.uuid not in taken]
    if len(free) < ask.count:
        raise Conflict(*booked_words(ask, usable, len(free), bookings, now))
    may = free if may_disturb(ask, now) else [one for one in free if not one.disturbs]
    if len(may) < ask.count:
        found = f"only {len(may)} of the {len(free)} {asked_words(ask)} that are free of bookings are sure to be empty then"
        notice = f"Users may send others away with {show_duration(LEAD)} of notice"
        raise Conflict(found, f"{notice}: book from {full_words(now + LEAD)} on, or ask an admin.")
    return best(may, ask.count)


def offers(ask: BookingAsk, nodes: Sequence[Node], holding: Sequence[Session]) -> list[Offer]:
    staying = Counter(gpu for session in holding if would_be_sent_away(session, ask) for gpu in gpus_of(session))
    there = [node for node in nodes if ask.pool in (None, node.pool) and ask.node in (None, node.name)]
    return [Offer(node, gpu, staying[gpu.uuid]) for node in there for gpu in node.gpus if is_kind(gpu.kind, ask.gpu_kind)]


def would_be_sent_away(session: Session, ask: BookingAsk) -> bool:
    """Those of the booking stay; preemptible ones expect no better."""
    if session.request.preemptible or is_among(ask.who, session.owner, session.team):
        return False
    return session.expected_end is None or session.expected_end > ask.start


def may_disturb(ask: BookingAsk, now: datetime) -> bool:
    """Else booking from now on would be a way past the queue, over those who run."""
    return ask.by_admin or ask.start - now >= LEAD


def best(free: Sequence[Offer], count: int) -> tuple[Offer, ...]:
    """Of each kind alone and of all together: what one node has, or what the fewest nodes have."""
    groups = [free, *([one for one in free if one.gpu.kind == kind] for kind in sorted({one.gpu.kind for one in free}))]
    choices: list[Sequence[Offer]] = []
    for group in groups:
        on_node: dict[str, list[Offer]] = {}
        for one in sorted(group, key=lambda one: (one.disturbs, one.gpu.index)):
            on_node.setdefault(one.node.name, []).append(one)
        choices += [on_one[:count] for on_one in on_node.values() if len(on_one) >= count]
        quiet_first = sorted(on_node.values(), key=lambda on_one: (-sum(not one.disturbs for one in on_one), on_one[0].node.name))
        spread = [one for on_one in quiet_first for one in on_one]
        choices += [spread[:count], sorted(spread, key=lambda one: one.disturbs)[:count]]
    enough = [choice for choice in choices if len(choice) == count]
    return tuple(sorted(enough, key=lambda choice: harm(choice, free))[0])


def harm(choice: Sequence[Offer], free: Sequence[Offer]) -> tuple[int, int, int, int, str]:
    """Who is sent away; then over how many kinds and nodes it is spread; then how much it leaves over there: large rests stay whole."""
    nodes = {one.node.name for one in choice}
    left_over = sum(one.node.name in nodes for one in free) - len(choice)
    return sum(one.disturbs for one in choice), len({one.gpu.kind for one in choice}), len(nodes), left_over, min(nodes)


def booked_words(ask: BookingAsk, usable: Sequence[Offer], free: int, bookings: Sequence[Booking], now: datetime) -> tuple[str, str]:
    """What is booked then, and from when so many are free for as long."""
    mine = {one.gpu.uuid for one in usable}
    there = [one for one in bookings if not mine.isdisjoint(one.gpus)]
    in_the_way = sorted((one for one in there if one.overlaps(ask.start, ask.end)), key=lambda one: (one.start, one.id))
    said = [
        f"{span_words(one.start, one.end, now)} is booked by {one.made_by} for {one.title}" for one in in_the_way[:BUSY_NAMED]
    ]
    more = [f"and {len(in_the_way) - BUSY_NAMED} more"] if len(in_the_way) > BUSY_NAMED else []
    ends = sorted({one.end for one in there if one.end > ask.start})
    start = next((at for at in ends if free_between(there, mine, at, at + ask.length) >= ask.count), None)
    found = f"only {free} of {len(usable)} {asked_words(ask)} are free of bookings then; {'; '.join([*said, *more])}"
    later = f"{ask.count} are free from {full_words(start)}, for {show_duration(ask.length)}." if start is not None else ""
    return found, f"{later} Book then, or fewer; see `fairy book show`.".strip()


def free_between(bookings: Iterable[Booking], gpus: set[str], start: datetime, end: datetime) -> int:
    return len(gpus - {gpu for one in bookings if one.overlaps(start, end) for gpu in one.gpus})


def asked_words(ask: BookingAsk) -> str:
    where = f" on {ask.node}" if ask.node else f" in pool {ask.pool}" if ask.pool else ""
    return f"{ask.gpu_kind or ''} GPUs{where}".strip()


def span_words(start: datetime, end: datetime, now: datetime) -> str:
    """`14:00-16:00 UTC`, with days where they are needed."""
    if start.date() == end.date() and abs(start - now) < timedelta(hours=24):
        return f"{start:%H:%M}-{end:%H:%M} UTC"
    return f"{full_words(start).removesuffix(' UTC')} to {clock_words(end, start)}"


def full_words(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
