"""Cards that a device plugin hands out, and the places that sessions hold: matched by whose processes are where."""
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.counted import at_places, card_places
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.reading import GpuDevice, GpuProcess, GpuReading, LostGpu, Xid

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
PLACES = [f"kube:gpu01/gpu/{number}" for number in range(4)]
CARDS = [f"GPU-{letter}" for letter in "abcd"]


def a_process(card: str, session: str | None) -> ProcessReading:
    owner = Owner("kim", KnownBy.SESSION, session_id=session, session=session)
    return ProcessReading(GpuProcess(7, card), RunningProcess(7, 1, "python", 1000), owner)


def a_sample(*on: tuple[str, str | None], cards: list[str] = CARDS) -> NodeSample:
    devices = tuple(GpuDevice(card, str(index), index, "A100-40GB", None) for index, card in enumerate(cards))
    readings = tuple(GpuReading(card, NOW, utilisation=index / 10) for index, card in enumerate(cards))
    return NodeSample("gpu01", NOW, 1.0, devices=devices, readings=readings, processes=tuple(a_process(*one) for one in on))


def test_while_nobody_is_seen_cards_are_at_places_in_order():
    assert card_places(a_sample(), PLACES, {}, {}) == dict(zip(CARDS, PLACES, strict=True))


def test_a_session_s_processes_say_which_card_is_at_its_place_and_the_other_card_takes_the_place_that_is_left():
    at = card_places(a_sample(("GPU-d", "s1")), PLACES, {"s1": [PLACES[0]]}, {})
    assert (at["GPU-d"], at["GPU-a"]) == (PLACES[0], PLACES[3])


def test_what_was_found_stays_when_the_process_has_ended():
    at = card_places(a_sample(("GPU-d", "s1")), PLACES, {"s1": [PLACES[0]]}, {})
    assert card_places(a_sample(), PLACES, {}, at) == at


def test_readings_processes_errors_and_lost_cards_are_told_of_their_places():
    sample = replace(a_sample(("GPU-d", "s1")), xids=(Xid("GPU-d", 79, NOW),), lost=(LostGpu(3, "GPU-d", "gone"), LostGpu(9, None, "never seen")))
    told = at_places(sample, card_places(sample, PLACES, {"s1": [PLACES[0]]}, {}))
    assert {reading.uuid: reading.utilisation for reading in told.readings}[PLACES[0]] == 0.3
    assert [process.on.uuid for process in told.processes] == [PLACES[0]]
    assert [(device.index, device.uuid) for device in told.devices][3] == (3, PLACES[0]), "the card keeps its number"
    assert [one.uuid for one in (*told.xids, *told.lost)] == [PLACES[0], PLACES[0], None]


def test_a_card_without_a_place_keeps_its_name():
    told = at_places(a_sample(), card_places(a_sample(), PLACES[:2], {}, {}))
    assert [device.uuid for device in told.devices] == [*PLACES[:2], "GPU-c", "GPU-d"]


@given(st.permutations(CARDS), st.lists(st.sampled_from(["s1", "s2", "s3", None]), min_size=4, max_size=4))
def test_no_place_has_two_cards_and_every_session_is_at_its_own(order, sessions):
    held: dict[str, list[str]] = {}
    for place, session in zip(PLACES, sessions, strict=True):
        if session is not None:
            held.setdefault(session, []).append(place)
    really = [(card, session) for card, session in zip(order, sessions, strict=True) if session is not None]
    at = card_places(a_sample(*really), PLACES, held, {})
    assert sorted(at.values()) == PLACES
    assert all(at[card] in held[session] for card, session in really)
