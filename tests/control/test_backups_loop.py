"""Backups of a house: at their hour, kept by the rule, told to the alerts and in the events; a failure is told and tried again later."""
from datetime import UTC, datetime, time, timedelta

import pytest
from house_scene import a_house

from gpufairy.api.backups import backup_shape, settings_shape
from gpufairy.control.backup import Backups, BackupSettings
from gpufairy.control.clock import HeldClock
from gpufairy.core.backup_keep import KeepRule
from gpufairy.core.errors import StoreUnavailable
from gpufairy.store.backup import Sources, list_backups
from gpufairy.web.admin_backups import backup_block

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path / "data", clock=HeldClock(NOON)) as found:
        await found.house.registry.ensure_user("ann")
        yield found


@pytest.fixture(autouse=True)
def data_folder(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("TZ", "UTC")


async def backups_of(scene, tmp_path, **settings):
    sources = Sources(f"sqlite:///{tmp_path}/data/fairy.db", tmp_path / "data")
    made = Backups(scene.house, sources, BackupSettings(tmp_path / "kept", at=time(2, 30), **settings))
    await made.load()
    return made


async def events_of(scene):
    return [(event.what, event.actor) for event in await scene.house.store.events.page(limit=1000) if event.what.startswith("backup")]


@pytest.mark.slow
async def test_nights_come_and_go_and_the_rule_keeps_its_number(scene, tmp_path):
    backups = await backups_of(scene, tmp_path, rule=KeepRule(3, 2, 1))
    for _ in range(40):
        scene.clock.go_on(6 * HOUR)
        await backups.look()
    found = list_backups(tmp_path / "kept")
    assert [one.path for one in backups.found] == [one.path for one in found]
    assert 3 <= len(found) <= 6
    assert scene.clock() - found[0].made_at <= DAY
    assert set(await events_of(scene)) == {("backup_made", "")}


async def test_none_is_made_before_its_time(scene, tmp_path):
    backups = await backups_of(scene, tmp_path)
    scene.clock.go_on(HOUR - timedelta(seconds=1))
    await backups.look()
    assert backups.found == []
    scene.clock.go_on(timedelta(seconds=1))
    await backups.look()
    await backups.look()
    assert len(backups.found) == 1


async def test_the_alerts_hear_of_the_last_good_one_and_until_then_since_when_there_is_none(scene, tmp_path):
    backups = await backups_of(scene, tmp_path)
    scene.clock.go_on(3 * DAY)
    assert (await backups_of(scene, tmp_path)).last_good_at() == NOON
    await backups.make("ann", "asked for by ann")
    assert backups.last_good_at() == scene.clock()
    assert (await backups_of(scene, tmp_path)).last_good_at() == scene.clock()
    assert ("backup_made", "ann") in await events_of(scene)


async def test_where_nobody_wants_any_nothing_is_made_and_nothing_is_said(scene, tmp_path):
    backups = await backups_of(scene, tmp_path, every=None)
    scene.clock.go_on(30 * DAY)
    await backups.look()
    assert backups.found == []
    assert backups.last_good_at() is None
    assert backups.next_at() is None


async def test_a_failure_is_told_and_tried_again_in_an_hour_not_at_once(scene, tmp_path):
    backups = await backups_of(scene, tmp_path)
    (tmp_path / "kept").write_text("in the way")
    scene.clock.go_on(2 * HOUR)
    await backups.look()
    await backups.look()
    assert "could not be written" in backups.trouble
    assert await events_of(scene) == [("backup_failed", "")]
    (tmp_path / "kept").unlink()
    scene.clock.go_on(HOUR)
    await backups.look()
    assert backups.trouble == ""
    assert len(backups.found) == 1


async def test_who_asks_is_told_why_it_failed(scene, tmp_path):
    backups = await backups_of(scene, tmp_path)
    (tmp_path / "kept").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="could not be written"):
        await backups.make("ann", "")
    assert settings_shape(backups)["trouble"]
    assert not backups.under_way


async def test_page_and_api_say_the_same(scene, tmp_path):
    backups = await backups_of(scene, tmp_path)
    assert backup_block(None, NOON) is None
    empty = backup_block(backups, NOON)
    assert (empty.mark.word, empty.last) == ("None yet", "There is no backup yet.")
    shape = backup_shape(await backups.make("ann", "asked for by ann"))
    assert (shape["verified"], shape["why"], shape["counts"]["users"]) == (True, "asked for by ann", 1)
    block = backup_block(backups, scene.clock())
    assert block.mark.word == "Verified"
    assert "read back and found whole" in block.last
    assert (block.where, block.folder) == ("1 backup is kept:", str(tmp_path / "kept"))
