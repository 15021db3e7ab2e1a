"""How far what another host says is believed: its clock may be wrong, and it speaks for its own sessions alone."""
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from gpufairy.core.errors import BadInput
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.owner import KnownBy

WRONG_CLOCK = timedelta(minutes=5)  # clocks of a lab differ by seconds


def in_our_time(samples: Sequence[NodeSample], now: datetime) -> tuple[NodeSample, ...]:
    """The last of them was made just now. If it names another time, the host's clock is wrong, and all are put right by as much:
    a host must not look dead because somebody set its clock. Raises BadInput."""
    wrong = now - samples[-1].at
    if abs(wrong) <= WRONG_CLOCK:
        return tuple(samples)
    minutes = abs(wrong) // timedelta(minutes=1)
    words = f"its clock is {minutes} minutes {'behind' if wrong > timedelta() else 'ahead'}: set it"
    try:
        return tuple(replace(sample, at=sample.at + wrong, trouble=(*sample.trouble, words)) for sample in samples)
    except OverflowError:
        raise BadInput("at: the times lie thousands of years apart", "Set the clock of that host.") from None


def own_sessions(sample: NodeSample, node_of: Callable[[str], str | None]) -> NodeSample:
    """Labels of containers can be forged by whoever may start one: a session is believed only where it has its seat."""
    if all(process.owner.session_id is None for process in sample.processes) and not sample.sessions:
        return sample
    processes = tuple(_believed(process, sample.node, node_of) for process in sample.processes)
    return replace(sample, processes=processes, sessions=tuple(one for one in sample.sessions if node_of(one.session_id) == sample.node))


def _believed(process: ProcessReading, node: str, node_of: Callable[[str], str | None]) -> ProcessReading:
    owner = process.owner
    if owner.session_id is None or node_of(owner.session_id) == node:
        return process
    return replace(process, owner=replace(owner, session_id=None, session=None, known_by=KnownBy.LABEL))
