"""Maintenance: a time that was said before in which a host is worked on. Nothing new starts there that would not be over before it
begins, nobody is told that the host is away, and its absence counts as planned. What runs there is not stopped.
"""
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpufairy.core.booking import Booking, clock_words, node_key
from gpufairy.core.errors import BadInput, Conflict
from gpufairy.core.node import Node
from gpufairy.core.silence import Silence

LONGEST = timedelta(days=14)
FURTHEST = timedelta(days=90)
LONGEST_WHY = 200  # characters


@dataclass(frozen=True, slots=True)
class Window:
    id: str
    node: str
    start: datetime
    end: datetime
    made_by: str
    why: str

    def runs(self, now: datetime) -> bool:
        return self.start <= now < self.end


def checked_window(window: Window, others: Iterable[Window], now: datetime) -> Window:
    """Raises BadInput for what can be no window, Conflict where there is one already."""
    if window.end <= max(window.start, now):
        raise BadInput("maintenance: it would be over before it begins", "Say until when: --until, or --for 2h.")
    if window.end - window.start > LONGEST:
        raise BadInput(f"maintenance: {LONGEST.days} days is the longest", "Drain the host for longer: fairy node drain NODE.")
    if window.start - now > FURTHEST:
        raise BadInput(f"maintenance: {FURTHEST.days} days ahead is the furthest", "Plan it when the time is nearer.")
    if not window.why.strip() or len(window.why) > LONGEST_WHY or not window.why.isprintable():
        raise BadInput("why: nothing, more than anybody reads, or not printable", "Say in a few words what is done, such as: new disk.")
    there = next((one for one in others if one.node == window.node and one.start < window.end and window.start < one.end), None)
    if there is not None:
        raise Conflict(
            f"{window.node} has a window then: {there.why}, {clock_words(there.start, now)} to {clock_words(there.end, now)}",
            f"End that one first: fairy node maintenance --end {there.id}.",
        )
    return window


def as_booking(window: Window, nodes: Iterable[Node]) -> Booking:
    """For nobody, of the whole host: so that the queue works around it as around any booking."""
    gpus = [gpu.uuid for node in nodes if node.name == window.node for gpu in node.gpus]
    title, parts = f"maintenance ({window.why})", (node_key(window.node), *gpus)
    return Booking(f"maintenance-{window.id}", title, window.made_by, (), parts, window.start, window.end, window.start)


def as_silence(window: Window) -> Silence:
    return Silence(window.id, window.start, window.end, window.made_by, window.why, node=window.node)


def state_words(window: Window, now: datetime) -> str:
    return f"maintenance until {clock_words(window.end, now)}: {window.why}"
