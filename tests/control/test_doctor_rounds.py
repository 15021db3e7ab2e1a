"""The doctor's rounds by night, in a house: at their hour, kept over a restart, told to the alerts, and over by themselves."""
from datetime import UTC, datetime, time, timedelta

import pytest
from house_scene import a_house

from gpufairy.control.clock import HeldClock
from gpufairy.control.doctor import Doctor
from gpufairy.control.doctor_night import NightRounds
from gpufairy.core.doctor import Finding, Verdict
from gpufairy.core.errors import Conflict, StoreUnavailable
from gpufairy.main.alerts import make_alert_desk
from gpufairy.wire.config import Config

EVENING, HOUR, DAY = datetime(2026, 11, 16, 20, tzinfo=UTC), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
async def scene(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    async with a_house(tmp_path, clock=HeldClock(EVENING)) as found:
        yield found


class Look:
    def __init__(self) -> None:
        self.verdict, self.times, self.refuses = Verdict.OK, 0, ""

    async def __call__(self) -> list[Finding]:
        self.times += 1
        if self.refuses:
            raise Conflict(self.refuses)
        return [Finding("disk", "Disk space", self.verdict, "2 GiB are left", "It matters.", ("rm",), where="box")]


async def rounds_of(scene, look, nightly=time(4)):
    rounds = NightRounds(scene.house, Doctor(scene.house, look), nightly)
    await rounds.load()
    return rounds


async def nights(scene, rounds, count=1):
    for _ in range(24 * count):
        scene.clock.go_on(HOUR)
        await rounds.look()


async def events(scene):
    return [event.why for event in await scene.house.store.events.page(limit=100) if event.what == "doctor_found"]


async def test_it_looks_once_a_night_and_never_when_it_is_switched_off(scene):
    look = Look()
    await nights(scene, await rounds_of(scene, look), 3)
    assert look.times == 3
    off = await rounds_of(scene, look, None)
    await nights(scene, off, 2)
    assert (look.times, off.troubles()) == (3, None)


async def test_what_newly_fails_is_an_alert_that_ends_by_itself(scene):
    look = Look()
    rounds, desk = await rounds_of(scene, look), make_alert_desk(scene.house, Config(), "http://box:8420")
    desk.watch.sources.doctor = rounds.troubles
    assert rounds.troubles() is None
    await nights(scene, rounds)
    await desk.watch.look()
    assert ([one.rule for one in desk.watch.alerts()], await events(scene)) == ([], [])
    look.verdict = Verdict.BAD
    await nights(scene, rounds)
    await desk.watch.look()
    [alert] = desk.watch.alerts()
    assert (alert.rule, alert.thing, alert.severity.value, alert.fired_at is not None) == ("doctor", "disk", "warning", True)
    assert alert.sentence == "Disk space fails on the server's host, since 2026-11-18: 2 GiB are left"
    look.verdict = Verdict.OK
    await nights(scene, rounds)
    await desk.watch.look()
    assert desk.watch.alerts() == []
    assert await events(scene) == ["fails now: disk", "well again: disk"]


async def test_a_look_that_was_asked_for_ends_an_alert_at_once(scene):
    look = Look()
    look.verdict = Verdict.BAD
    doctor = Doctor(scene.house, look)
    rounds = NightRounds(scene.house, doctor, time(4))
    await nights(scene, rounds)
    assert [one.check for one in rounds.troubles()] == ["disk"]
    look.verdict = Verdict.OK
    await doctor.checkup(anew=True)
    assert list(rounds.troubles()) == []


async def test_the_last_look_and_what_fails_outlive_a_restart(scene):
    look = Look()
    look.verdict = Verdict.BAD
    await nights(scene, await rounds_of(scene, look))
    doctor = Doctor(scene.house, look)
    again = NightRounds(scene.house, doctor, time(4))
    await again.load()
    assert (doctor.last.findings[0].found, doctor.last.findings[0].where, doctor.nightly) == ("2 GiB are left", "box", time(4))
    assert [one.check for one in again.troubles()] == ["disk"]
    await again.look()
    assert look.times == 1, "this night's look was made before the restart"


async def test_one_who_cannot_look_is_asked_again_the_next_night_and_no_loop_fails(scene):
    look = Look()
    look.refuses = "the doctor could not look at all"
    rounds = await rounds_of(scene, look)
    await nights(scene, rounds, 2)
    assert (look.times, rounds.troubles()) == (2, None)


async def test_whoever_asks_is_told_also_when_nothing_can_be_written(scene, monkeypatch):
    async def full(name, value):
        raise StoreUnavailable("no space left on device", "Make room.")

    look = Look()
    doctor = Doctor(scene.house, look)
    NightRounds(scene.house, doctor, time(4))
    monkeypatch.setattr(scene.house.store.meta, "put", full)
    assert (await doctor.checkup(anew=True)).findings[0].check == "disk"
