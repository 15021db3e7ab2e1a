"""A class from its roster to its archive: nothing half done, nothing before its first day, nothing deleted, and a killed server goes on."""
import base64
from dataclasses import replace
from datetime import timedelta

import pytest
from house_scene import a_house

from builders import NOW
from gpufairy.control.class_deeds import add_class, apply_roster, archive_class, change_class, look_at_new, remove_class, reset_class
from gpufairy.control.class_links import link_of, make_links, use_link
from gpufairy.control.class_watch import look_at_classes, pack_homes
from gpufairy.control.door import submit
from gpufairy.control.enter import Knock, enter
from gpufairy.control.registry import Caller
from gpufairy.core.classes import ClassState, Member, SchoolClass, Standing
from gpufairy.core.errors import BadInput, Conflict, EngineRefused, NoSuchThing, NotAllowed, NotSignedIn
from gpufairy.core.people import Role
from gpufairy.engines.class_folders import ClassFolders
from gpufairy.wire.classes import BoundsBody, ClassBody, ClassChangeBody, ResetBody, RosterBody
from gpufairy.wire.submit import SubmitBody

pytestmark = pytest.mark.slow

START, END = NOW + timedelta(days=1), NOW + timedelta(days=30)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl kim@laptop"


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path, gpus=4) as found:
        give_folders(found, tmp_path)
        yield found


def give_folders(scene, folder):
    scene.house.classes.folders = ClassFolders(folder / "homes", folder / "handin", own_uids=False)
    scene.house.classes.mounts_hand_ins = True
    (folder / "homes").mkdir(exist_ok=True)


def encoded(*lines):
    return base64.b64encode("\n".join(lines).encode("cp949")).decode()


def a_body(*logins, name="cs231n", **fields):
    roster = encoded("학번,이름", *(f"{login},학생" for login in logins or ("kim", "lee")))
    dates = {"start": START.isoformat(), "end": END.isoformat()}
    return ClassBody(**{"name": name, "roster": roster, **dates, **fields})


async def started_by(scene, name, **fields):
    caller = Caller(scene.house.registry.user(name), "full")
    return (await submit(scene.house, caller, SubmitBody(command=["work"], **fields), {}, None))[0]


async def test_a_roster_becomes_accounts_a_team_and_quotas(scene):
    house = scene.house
    body = a_body(quota=BoundsBody(gpus=3), each=BoundsBody(gpus=1, sessions=2), roster=encoded("login,name,ssh key", f"kim,김,{KEY}", "lee,이,"))
    await add_class(house, "root", body)
    assert [(user.name, user.team, user.role) for user in house.registry.users()] == [("kim", "cs231n", Role.USER), ("lee", "cs231n", Role.USER)]
    assert {(quota.of, quota.gpu_parts, quota.sessions) for quota in house.quotas.all()} == {
        ("team:cs231n", 3_000_000, None), ("user:kim", 1_000_000, 2), ("user:lee", 1_000_000, 2),
    }  # fmt: skip
    assert [key.comment for key in house.keyring.of("kim")] == ["kim@laptop"]
    assert house.classes.folders.hand_in_folder("cs231n", "lee").is_dir()
    events = await house.store.events.page(limit=10)
    assert [(event.actor, event.what, event.why.split(";")[0]) for event in events] == [("root", "class_added", "2 added")]


async def test_one_line_that_cannot_be_and_nothing_is_done(scene):
    await scene.house.registry.ensure_user("lee")
    looked = look_at_new(scene.house, "root", a_body("kim", "lee", "Bad Login"))
    assert [(fault.line) for fault in looked.plan.faults] == [3, 4]
    with pytest.raises(BadInput, match="2 lines cannot be, so nothing was done: line 3: there is a user lee"):
        await add_class(scene.house, "root", a_body("kim", "lee", "Bad Login"))
    assert [user.name for user in scene.house.registry.users()] == ["lee"]
    assert scene.house.classes.all() == []
    assert scene.house.teams.all() == []


async def test_a_team_that_others_are_in_is_not_taken(scene):
    await scene.house.registry.add_user("ann", Role.USER, "nlp")
    with pytest.raises(Conflict, match="team nlp has 1 members who are not of this class"):
        await add_class(scene.house, "root", a_body(team="nlp"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"end": NOW.isoformat()}, "is not after the start"),
        ({"start": (NOW - timedelta(days=9)).isoformat(), "end": (NOW - timedelta(days=1)).isoformat()}, "has passed"),
        ({"end": "2028-12-01"}, "longer than a year"),
        ({"due": "2020-01-01"}, "not within the class"),
        ({"end": "soon"}, "is no day or time"),
        ({"name": "CS 231"}, "is no name of a class"),
        ({"preset": "smal"}, "preset: no 'smal'"),
        ({"teachers": ["prof"]}, "teacher: no user 'prof'"),
        ({"homes": "burn"}, "homes: found 'burn'"),
        ({"gpus": "many"}, "many"),
        ({"roster": "#"}, "no file in base64"),
    ],
)
async def test_what_cannot_be_a_class_is_refused_with_the_field(scene, fields, words):
    with pytest.raises((BadInput, NoSuchThing), match=words):
        await add_class(scene.house, "root", a_body(**fields))
    assert scene.house.classes.all() == []


async def test_nobody_starts_anything_before_the_first_day_nor_after_the_last(scene):
    await add_class(scene.house, "root", a_body())
    with pytest.raises(NotAllowed, match="class cs231n begins"):
        await started_by(scene, "kim")
    with pytest.raises(NotAllowed, match="class cs231n begins"):
        await enter(scene.house, Knock(scene.house.registry.user("kim"), None), SubmitBody(), 0)
    await scene.later(timedelta(days=1))
    session = await started_by(scene, "kim")
    await scene.rest()
    assert (await scene.now(session)).state == "RUNNING"
    scene.clock.go_on(timedelta(days=29))
    with pytest.raises(NotAllowed, match="class cs231n ended"):
        await started_by(scene, "lee")


async def test_a_session_is_what_the_class_says_where_the_student_does_not(scene):
    scene.house.classes.presets = {"small": SubmitBody(cpus=2, gpus="0.25", time="1h")}
    await add_class(scene.house, "root", a_body(preset="small", gpus="0.5", start=NOW.isoformat()))
    session = await started_by(scene, "kim", cpus=1)
    assert (str(session.request.share), session.request.cpus_milli, session.request.time_limit) == ("0.5", 1000, timedelta(hours=1))
    assert session.request.mounts == ("handin/cs231n",)
    assert str((await started_by(scene, "lee", gpus="1")).request.share) == "1"
    by_ssh = await enter(scene.house, Knock(scene.house.registry.user("lee"), None), SubmitBody(gpus="1"), 0)
    assert str(by_ssh.session.request.share) == "0.5"


async def test_a_student_has_their_own_hand_in_folder_a_teacher_all_and_others_none(scene):
    await scene.house.registry.ensure_user("prof")
    await add_class(scene.house, "root", a_body(teachers=["prof"], due=(START + timedelta(days=2)).isoformat()))
    classes = scene.house.classes
    own = classes.hand_in("kim", "cs231n")
    assert (own.path.name, own.writable) == ("kim", True)
    assert (classes.hand_in("prof", "cs231n").path.name, classes.hand_in("prof", "cs231n").writable) == ("cs231n", False)
    await scene.house.registry.ensure_user("eve")
    for owner, name in (("eve", "cs231n"), ("kim", "cs999"), ("kim", "../kim")):
        with pytest.raises(EngineRefused, match="neither takes nor teaches"):
            classes.hand_in(owner, name)
    scene.clock.go_on(timedelta(days=3))
    assert classes.hand_in("kim", "cs231n").writable is False
    await look_at_classes(scene.house)
    assert own.path.stat().st_mode & 0o222 == 0
    await change_class(scene.house, "root", "cs231n", ClassChangeBody(due=(START + timedelta(days=9)).isoformat()))
    assert own.path.stat().st_mode & 0o200
    assert classes.hand_in("kim", "cs231n").writable is True


async def test_a_roster_applied_again_adds_the_new_and_shuts_out_the_missing_only_when_told(scene):
    house = scene.house
    await add_class(house, "root", a_body(start=NOW.isoformat()))
    session = await started_by(scene, "lee")
    await scene.rest()
    roster = encoded("login", "kim", "cho")
    looked = await apply_roster(house, "root", "cs231n", RosterBody(roster=roster))
    assert [member.user for member in looked.plan.missing] == ["lee"]
    assert not house.registry.user("lee").disabled
    await apply_roster(house, "root", "cs231n", RosterBody(roster=roster, missing="disable"))
    await scene.rest()
    assert (house.registry.user("lee").disabled, house.registry.user("lee").team) == (True, None)
    assert (await scene.now(session)).why == "not in the roster of class cs231n any more"
    assert house.registry.user("cho").team == "cs231n"
    await apply_roster(house, "root", "cs231n", RosterBody(roster=encoded("login", "kim", "cho", "lee")))
    assert (house.registry.user("lee").disabled, house.registry.user("lee").team) == (False, "cs231n")


async def test_a_reset_ends_sessions_and_sets_homes_aside_once_nothing_runs_and_deletes_nothing(scene, tmp_path):
    await add_class(scene.house, "root", a_body(start=NOW.isoformat()))
    (tmp_path / "homes" / "kim").mkdir()
    (tmp_path / "homes" / "kim" / "work.py").write_text("x = 1")
    session = await started_by(scene, "kim")
    await scene.rest()
    with pytest.raises(BadInput, match="only when its name is said once more"):
        await reset_class(scene.house, "root", "cs231n", ResetBody(homes="aside"))
    assert [one.id for one in await reset_class(scene.house, "root", "cs231n", ResetBody(homes="aside", confirm="cs231n"))] == [session.id]
    assert (tmp_path / "homes" / "kim" / "work.py").exists()
    with pytest.raises(Conflict, match="is just being set aside"):
        await started_by(scene, "kim")
    await scene.rest()
    await look_at_classes(scene.house)
    assert list((tmp_path / "homes" / "kim").iterdir()) == []
    [aside] = scene.house.classes.folders.aside_of("cs231n")
    assert (aside / "work.py").read_text() == "x = 1"
    assert await started_by(scene, "kim")


async def test_at_its_end_a_class_is_archived_by_itself(scene, tmp_path):
    house = scene.house
    await house.registry.add_user("ann", Role.USER, "nlp")
    body = a_body("kim", "lee", "ann", take_users=True, start=NOW.isoformat(), quota=BoundsBody(gpus=3), each=BoundsBody(gpus=1))
    await add_class(house, "root", body)
    assert house.registry.user("ann").team == "cs231n"
    (tmp_path / "homes" / "kim").mkdir()
    (tmp_path / "homes" / "kim" / "work.py").write_text("x = 1")
    (house.classes.folders.hand_in_folder("cs231n", "kim") / "answer.txt").write_text("42")
    session = await started_by(scene, "kim")
    await scene.later(timedelta(days=30))
    await look_at_classes(house)
    await scene.rest()
    await look_at_classes(house)
    taught = house.classes.named("cs231n")
    assert taught.state(scene.clock()) is ClassState.ARCHIVED
    assert (await scene.now(session)).why == "class cs231n is over"
    users = {user.name: user for user in house.registry.users()}
    assert (users["kim"].disabled, users["lee"].disabled, users["ann"].disabled) == (True, True, False)
    assert users["ann"].team == "nlp"
    assert [team.name for team in house.teams.all()] == ["nlp"]
    assert house.quotas.all() == ()
    await pack_homes(house)
    assert [path.suffix for path in house.classes.folders.aside_of("cs231n")] == [".tar"]
    assert (house.classes.folders.hand_in_folder("cs231n", "kim") / "answer.txt").read_text() == "42"
    with pytest.raises(Conflict, match="class cs231n is over"):
        await apply_roster(house, "root", "cs231n", RosterBody(roster=encoded("login", "kim")))
    await remove_class(house, "root", "cs231n")
    await add_class(house, "root", a_body("kim", name="cs232", take_users=True, start=scene.clock().isoformat(), end=(scene.clock() + timedelta(days=5)).isoformat()))
    assert house.registry.user("kim").team == "cs232"


async def test_a_student_of_a_class_that_is_over_is_let_in_again_by_the_next(scene):
    await add_class(scene.house, "root", a_body(start=NOW.isoformat()))
    with pytest.raises(BadInput, match="kim is in class cs231n, which is not over"):
        await add_class(scene.house, "root", a_body("kim", name="cs232"))
    await archive_class(scene.house, "root", "cs231n")
    await add_class(scene.house, "root", a_body("kim", name="cs232"))
    assert scene.house.registry.user("kim").disabled is False


async def test_a_server_killed_in_the_middle_of_a_roster_goes_on_with_it(tmp_path):
    async with a_house(tmp_path) as scene:  # as far as the class is written, and no account made
        taught = SchoolClass("cs231n", "cs231n", START, END, NOW, "root")
        await scene.house.store.classes.put(taught, [Member("cs231n", "kim"), Member("cs231n", "lee")])
        await scene.house.registry.add_user("kim", Role.USER, "cs231n")
    async with a_house(tmp_path) as scene:
        await look_at_classes(scene.house)
        assert [user.name for user in scene.house.registry.users()] == ["kim", "lee"]
        assert {member.standing for member in scene.house.classes.members("cs231n")} == {Standing.IN}


async def test_a_server_killed_while_it_resets_goes_on_with_it(tmp_path):
    async with a_house(tmp_path) as scene:
        give_folders(scene, tmp_path)
        await add_class(scene.house, "root", a_body())
        (tmp_path / "homes" / "kim").mkdir()
        (tmp_path / "homes" / "kim" / "a").write_text("a")
        await scene.house.store.classes.put_members([replace(scene.house.classes.member("cs231n", "kim"), reset_at=NOW)])
    async with a_house(tmp_path) as scene:
        give_folders(scene, tmp_path)
        await look_at_classes(scene.house)
        assert len(scene.house.classes.folders.aside_of("cs231n")) == 1
        assert scene.house.classes.member("cs231n", "kim").reset_at is None


async def test_a_link_lets_one_in_once_and_one_made_anew_takes_its_place(tmp_path):
    async with a_house(tmp_path) as scene:
        await add_class(scene.house, "root", a_body())
        made = await make_links(scene.house, "root", scene.house.classes.named("cs231n"), None, all_of_them=False)
        codes = {one.member.user: one.code for one in made}
        [again] = await make_links(scene.house, "root", scene.house.classes.named("cs231n"), ["lee"], all_of_them=False)
    async with a_house(tmp_path) as scene:  # links outlive a restart
        house = scene.house
        assert (await link_of(house, codes["kim"])).user == "kim"
        assert await use_link(house, codes["kim"]) == "kim"
        for dead in (codes["kim"], codes["lee"], "class_nonsense", ""):
            with pytest.raises(NotSignedIn):
                await use_link(house, dead)
        scene.clock.go_on(timedelta(days=31))
        with pytest.raises(NotSignedIn):
            await use_link(house, again.code)
        assert codes["kim"] not in str(await house.store.classes.linked())
