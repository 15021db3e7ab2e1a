"""Coming into a session: which one is meant, started if there is none, and told why not yet."""
import asyncio
from dataclasses import replace

import pytest
from house_scene import ANN, a_house

from gpufairy.control.enter import DEFAULT_NAME, Knock, enter
from gpufairy.control.roster import in_force, roster, roster_after
from gpufairy.core.errors import Conflict, NoSuchThing
from gpufairy.core.people import Key
from gpufairy.core.purpose import Purpose
from gpufairy.wire.submit import SubmitBody

NOTHING = SubmitBody(gpus="0")


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as found:
        yield found


async def knock(scene, name=None, purpose=Purpose.SHELL, default=NOTHING):
    return await enter(scene.house, Knock(ANN, name, purpose), default, 0)


async def started(scene, **fields):
    session = await scene.submit(command=None, **fields)
    await scene.rest()
    return await scene.now(session)


async def test_the_only_session_is_meant(scene):
    session = await started(scene, gpus="0")
    entry = await knock(scene)
    assert entry.session == session
    assert entry.door is not None
    assert session.name in entry.greeting


async def test_without_a_session_the_default_one_is_started_and_the_wait_told(scene):
    await started(scene, gpus="2", name="holder")
    bea = Knock(replace(ANN, name="bea"), None)
    entry = await enter(scene.house, bea, SubmitBody(gpus="1"), 0)
    assert (entry.session.name, entry.session.owner, entry.door) == (DEFAULT_NAME, "bea", None)
    await scene.rest()
    again = await enter(scene.house, bea, SubmitBody(gpus="1"), 0)
    assert "PENDING" in again.words
    assert "place 1 of 1" in again.words


async def test_two_logins_at_once_start_one_session(scene):
    entries = await asyncio.gather(*(knock(scene) for _ in range(10)))
    assert len({entry.session.id for entry in entries}) == 1


async def test_of_several_the_default_one_is_meant(scene):
    await started(scene, gpus="0", name="one")
    await started(scene, gpus="0", name="two")
    assert (await knock(scene)).session.name == DEFAULT_NAME


async def test_jobs_are_not_come_into_by_chance_but_by_name(scene):
    job = await scene.submit(gpus="0")
    await scene.rest()
    assert (await knock(scene)).session.name == DEFAULT_NAME
    assert (await knock(scene, job.name)).session.id == job.id


async def test_a_name_that_is_not_there_is_told_with_those_that_are(scene):
    await started(scene, gpus="0", name="train")
    with pytest.raises(NoSuchThing, match="did you mean train"):
        await knock(scene, "trian")


async def test_files_need_no_session(scene):
    entry = await knock(scene, purpose=Purpose.FILES)
    assert (entry.session, entry.door.env) == (None, (("USER", "ann"),))
    assert len(scene.house.book) == 0


async def test_files_of_a_session_that_runs_are_seen_from_inside_it(scene):
    session = await started(scene, gpus="0")
    assert (await knock(scene, purpose=Purpose.FILES)).session == session


async def test_a_session_that_ends_while_somebody_waits_is_told(scene):
    session = await started(scene, gpus="0")
    scene.containers.slow_start = True
    waiting = asyncio.create_task(enter(scene.house, Knock(ANN, (await scene.submit(command=None, gpus="0", name="late")).name), NOTHING, 30))
    await scene.rest()
    await scene.stop(scene.house.book.named("ann", "late"))
    await scene.rest()
    with pytest.raises(Conflict, match="late is over"):
        await waiting
    assert (await scene.now(session)).state == "RUNNING"


async def test_the_roster_is_told_at_once_when_keys_or_people_change(scene):
    house = scene.house
    await house.registry.ensure_user("ann")
    first = roster(house)
    for change in (
        lambda: house.keyring.add(Key("SHA256:a", "ann", "ssh-ed25519 AAAA", "", ANN.created_at)),
        lambda: house.registry.change_user("ann", disabled=True),
    ):
        waiting = asyncio.create_task(roster_after(house, first.revision, 30))
        await asyncio.sleep(0)
        await change()
        first = await waiting
    assert first.keys == {}


async def test_a_key_is_in_force_when_the_gateway_knows_it(scene):
    house = scene.house
    await in_force(house)  # no gateway: nobody to wait for
    following = asyncio.create_task(roster_after(house, roster(house).revision, 30))
    await asyncio.sleep(0)
    house.bells.people_changed()
    waiting = asyncio.create_task(in_force(house))
    told = await following
    assert not waiting.done()
    again = asyncio.create_task(roster_after(house, told.revision, 30))
    await asyncio.wait_for(waiting, 0.5)
    again.cancel()
