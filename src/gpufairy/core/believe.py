"""How far what another host says is believed: its clock may be wrong, and it speaks for its own sessions alone."""
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpufairy.core.errors import BadInput
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.owner import KnownBy

WRONG_CLOCK = timedelta(minutes=5)  # clocks of a lab differ by seconds
SAME_FAULT = timedelta(seconds=30)  # what a wrong clock may seem to differ from one report to the next: reports wait on their way


@dataclass(frozen=True, slots=True)
class Heard:
    """A sample that is believed. `sent_at`: the time that its host gave it, by which it is known again when it is sent twice."""

    sample: NodeSample
    sent_at: datetime


def clock_wrong_by(said: datetime, now: datetime, before: timedelta) -> timedelta:
    """`said`: by a sample that was made just now. If it names another time, the host's clock is wrong, and all its times are put
    right by as much: a host must not look dead because somebody set its clock. `before`: what was found the last time, and stays
    while it fits: else two reports would be put closer together or further apart than they were made."""
    wrong = now - said
    if abs(wrong) <= WRONG_CLOCK:
        return timedelta()
    return before if before and abs(wrong - before) <= SAME_FAULT else wrong


def put_right(sample: NodeSample, wrong: timedelta) -> NodeSample:
    """Raises BadInput for times that nobody can reckon with."""
    if not wrong:
        return sample
    minutes = abs(wrong) // timedelta(minutes=1)
    words = f"its clock is {minutes} minutes {'behind' if wrong > timedelta() else 'ahead'}: set it"
    try:
        return replace(sample, at=sample.at + wrong, trouble=(*sample.trouble, words))
    except OverflowError:
        raise BadInput("at: the times lie thousands of years apart", "Set the clock of that host.") from None


def heartbeat(node: str, now: datetime, before: NodeSample | None, why: str) -> NodeSample:
    """Of a host whose report of now cannot be: it is there, what it has is known from before, and nothing that it reads is."""
    words = f"what it told cannot be: {why}"
    if before is None:
        return NodeSample(node, now, 0.0, gpus_known=False, trouble=(words,))
    return replace(
        before, at=now, seconds=0.0, host=None, readings=(), processes=(), sessions=(), xids=(), gpus_known=False, trouble=(words,)
    )


def own_sessions(sample: NodeSample, node_of: Callable[[str], str | None]) -> NodeSample:
    """Labels of containers can be forged by whoever may start one: a session is believed only where it has its seat."""
    if all(process.owner.session_id is None for process in sample.processes) and not sample.sessions:
        return sample
    processes = tuple(_believed(process, sample.node, node_of) for process in sample.processes)
    return replace(sample, processes=processes, sessions=tuple(one for one in sample.sessions if node_of(one.session_id) == sample.node))


def own_gpus(sample: NodeSample, foreign: Collection[str]) -> NodeSample:
    """Without the GPUs that another host has: a UUID is one card's, and nobody speaks for somebody else's."""
    taken = {device.uuid for device in sample.devices if device.uuid in foreign or device.parent in foreign}
    if not taken:
        return sample
    return replace(
        sample,
        devices=tuple(device for device in sample.devices if device.uuid not in taken),
        readings=tuple(reading for reading in sample.readings if reading.uuid not in taken),
        processes=tuple(process for process in sample.processes if process.on.uuid not in taken),
        trouble=(*sample.trouble, f"{len(taken)} of its GPUs are those of another host, by their UUIDs"),
    )


def _believed(process: ProcessReading, node: str, node_of: Callable[[str], str | None]) -> ProcessReading:
    owner = process.owner
    if owner.session_id is None or node_of(owner.session_id) == node:
        return process
    return replace(process, owner=replace(owner, session_id=None, session=None, known_by=KnownBy.LABEL))
