"""Held, used and not known are three figures."""
from datetime import UTC, datetime, timedelta

from gpufairy.core.series import COLUMNS, Kind, Subject, Total
from gpufairy.core.session import GpuSeat, Seat
from gpufairy.core.share import PARTS
from gpufairy.core.usage import By, HeldSeat, usage_of, within

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
SEAT = Seat("gpu01", 1000, 2**30, (GpuSeat(0, "GPU-0", PARTS, 2**30), GpuSeat(1, "GPU-1", PARTS // 2, 2**30)))


def a_hold(session_id: str = "s1", owner: str = "ann", hours_ago: float = 2, hours: float = 1) -> HeldSeat:
    since = NOW - hours_ago * HOUR
    return HeldSeat(session_id, owner, SEAT, since, since + hours * HOUR)


def told(kind: Kind, **hours: float) -> dict[str, Total]:
    """In hours; what is not named was never known."""
    return {column.name: Total(hours[column.name] * 3600, 3600) if column.name in hours else Total() for column in COLUMNS[kind]}


def test_a_hold_counts_with_what_of_it_lies_in_the_stretch():
    holds = within([a_hold(hours_ago=3, hours=2), a_hold(hours_ago=9, hours=1), a_hold(hours_ago=0.5, hours=8)], NOW - 2 * HOUR, NOW)
    assert [hold.seconds for hold in holds] == [3600, 1800]


def test_a_user_has_what_all_nodes_tell_and_the_ledger_wrote():
    totals = {
        Subject(Kind.USER, "ann", "gpu01"): told(Kind.USER, gpus_held=1.5, gpus_used=0.9, gpus_unknown=0.5, gpus_outside=0.0),
        Subject(Kind.USER, "ann", "gpu02"): told(Kind.USER, gpus_held=0.0, gpus_used=0.0, gpus_unknown=0.0, gpus_outside=0.25),
    }
    [row] = usage_of(By.USER, [a_hold()], totals)
    assert (row.name, row.held_s / 3600, row.used_s / 3600, row.unknown_s / 3600, row.outside_s / 3600) == ("ann", 1.5, 0.9, 0.5, 0.25)


def test_what_was_held_while_nothing_was_reported_is_not_known_and_never_unused():
    [row] = usage_of(By.SESSION, [a_hold()], {})
    assert (row.held_s, row.used_s, row.unknown_s, row.owner) == (1.5 * 3600, None, 1.5 * 3600, "ann")


def test_a_gpu_has_its_own_share_and_a_node_the_sum_of_its_gpus():
    totals = {
        Subject(Kind.GPU, "GPU-0", "gpu01"): told(Kind.GPU, utilisation=0.5, held=1.0, held_unknown=0.25),
        Subject(Kind.GPU, "GPU-1", "gpu01"): told(Kind.GPU, utilisation=0.25, held=0.5, held_unknown=0.0),
        Subject(Kind.GPU, "MIG-1", "gpu01"): told(Kind.GPU, utilisation=1.0, held=1.0, held_unknown=0.0),
    }
    gpus = [(row.name, row.node, row.held_s / 3600, row.used_s / 3600, row.unknown_s / 3600) for row in usage_of(By.GPU, [a_hold()], totals)]
    assert gpus == [("GPU-0", "gpu01", 1.0, 0.5, 0.25), ("GPU-1", "gpu01", 0.5, 0.25, 0.0)]
    [node] = usage_of(By.NODE, [a_hold()], totals)
    assert (node.name, node.held_s / 3600, node.used_s / 3600, node.unknown_s / 3600) == ("gpu01", 1.5, 0.75, 0.25)


def test_those_who_held_most_come_first():
    rows = usage_of(By.USER, [a_hold(owner="bob"), a_hold(owner="ann"), a_hold(owner="eva", hours=2)], {})
    assert [row.name for row in rows] == ["eva", "ann", "bob"]
