"""What admins do with classes: make one of a roster, apply it again, change, reset, archive, remove. Checked whole, then written whole.

API and pages call these; whether the caller may is checked before. What follows from them is done by class_watch.py.
"""
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo

from gpufairy.control.audit import note
from gpufairy.control.class_watch import converge_class
from gpufairy.control.door import ask_to_stop
from gpufairy.control.house import House
from gpufairy.core.classes import ClassState, Known, Member, RosterPlan, SchoolClass, Standing, fault_words, plan_roster
from gpufairy.core.errors import BadInput, Conflict, NoSuchThing
from gpufairy.core.names import nearest
from gpufairy.core.roster_file import RosterFile, read_roster
from gpufairy.core.session import Session
from gpufairy.wire.classes import ClassBody, ClassChangeBody, ResetBody, RosterBody, roster_bytes  # fmt: skip


@dataclass(frozen=True, slots=True)
class Looked:
    """A roster, and what it would change."""

    taught: SchoolClass
    roster: RosterFile
    plan: RosterPlan


def look_at_new(house: House, actor: str, body: ClassBody, zone: tzinfo = UTC) -> Looked:
    """Nothing is written. Raises for what is wrong with the class itself; faults of the roster are in the answer."""
    taught = body.to_class(actor, house.clock(), zone)
    if house.classes.is_there(taught.name):
        raise Conflict(f"there is a class {taught.name} already", f"Apply a roster to it: fairy class roster {taught.name} FILE.")
    check_settings(house, taught)
    members = house.teams.members(taught.team) if any(team.name == taught.team for team in house.teams.all()) else []
    if members:
        found = f"team {taught.team} has {len(members)} members who are not of this class, and is closed with it"
        raise Conflict(found, "Choose another name: --team NAME.")
    return look(house, taught, roster_bytes(body.roster), take_users=body.take_users)


def look(house: House, taught: SchoolClass, data: bytes, *, take_users: bool) -> Looked:
    roster = read_roster(data)
    return Looked(taught, roster, plan_roster(taught.name, roster, known(house, taught.name), take_users=take_users))


def known(house: House, name: str) -> Known:
    users = {user.name: user for user in house.registry.users()}
    owners = {key.text: key.user for user in users for key in house.keyring.of(user)}
    classes = house.classes
    return Known(users, classes.members(name), classes.elsewhere(name), classes.made_for_classes(), owners)


def check_settings(house: House, taught: SchoolClass) -> None:
    presets, people = house.classes.presets, [user.name for user in house.registry.users()]
    if taught.preset is not None and taught.preset not in presets:
        offered = ", ".join(sorted(presets)) or "none"
        raise BadInput(f"preset: no {taught.preset[:60]!r}{nearest(taught.preset, presets)}", f"Presets offered here: {offered}.")
    for teacher in taught.teachers:
        if teacher not in people:
            raise NoSuchThing(f"teacher: no user {teacher!r}{nearest(teacher, people)}", f"Add them first: fairy user add {teacher}.")


async def add_class(house: House, actor: str, body: ClassBody, zone: tzinfo = UTC) -> Looked:
    looked = look_at_new(house, actor, body, zone)
    refuse_faults(looked)
    await house.classes.put(looked.taught, looked.plan.members)
    await note(house, actor, f"class:{looked.taught.name}", "class_added", class_words(looked))
    await converge_class(house, looked.taught.name)
    return replace(looked, taught=house.classes.named(looked.taught.name))


async def apply_roster(house: House, actor: str, name: str, body: RosterBody) -> Looked:
    taught = living(house, name)
    looked = look(house, taught, roster_bytes(body.roster), take_users=body.take_users)
    if body.dry_run:
        return looked
    refuse_faults(looked)
    gone = [replace(member, standing=Standing.LEFT, key="") for member in looked.plan.missing] if body.disables else []
    await house.classes.put(taught, [*looked.plan.members, *gone])
    await note(house, actor, f"class:{name}", "class_roster", roster_words(looked.plan, disabled=len(gone)))
    await converge_class(house, name)
    return looked


def refuse_faults(looked: Looked) -> None:
    if looked.plan.faults:
        count = len(looked.plan.faults)
        found = f"roster: {count} {'line' if count == 1 else 'lines'} cannot be, so nothing was done: {fault_words(looked.plan.faults)}"
        raise BadInput(found, "Mend the file and send it again; --dry-run tells what it would do.")


async def change_class(house: House, actor: str, name: str, body: ClassChangeBody, zone: tzinfo = UTC) -> SchoolClass:
    changed = body.changed(living(house, name), house.clock(), zone)
    check_settings(house, changed)
    await house.classes.put(changed)
    await note(house, actor, f"class:{name}", "class_changed", dates_words(changed))
    await converge_class(house, name)
    return house.classes.named(name)


async def reset_class(house: House, actor: str, name: str, body: ResetBody) -> list[Session]:
    """Ends all sessions of its students, and sets their homes aside if that is asked. The sessions that were asked to leave."""
    taught, aside = living(house, name), body.sets_aside
    if aside and body.confirm != taught.name:
        found = f"homes of class {name} are set aside only when its name is said once more, found {body.confirm[:60]!r}"
        raise BadInput(found, f'Send "confirm": "{name}", or leave homes as they are.')
    if aside and house.classes.folders is None:
        raise Conflict("homes are not on this machine's disk", "End the sessions alone: leave out --homes.")
    all_in = [member for member in house.classes.members(name) if member.standing is Standing.IN]
    members = all_in if body.users is None else [house.classes.member(name, user) for user in body.users]
    if aside:  # written before anything is asked to leave: a server that dies in between goes on with it
        now = house.clock()
        await house.classes.put_members([replace(member, reset_at=now) for member in members])
    sessions = sessions_of(house, members)
    await ask_to_stop(house, sessions, actor, f"class {name} was reset by {actor}")
    homes = ", homes set aside" if aside else ""
    await note(house, actor, f"class:{name}", "class_reset", f"{len(members)} students, {len(sessions)} sessions ended{homes}")
    await converge_class(house, name)
    return sessions


async def archive_class(house: House, actor: str, name: str) -> SchoolClass:
    """At once, whatever its end is."""
    taught, now = living(house, name), house.clock()
    await house.classes.put(replace(taught, closing_at=now, end=min(taught.end, now), start=min(taught.start, now)))
    await note(house, actor, f"class:{name}", "class_closing", "it is archived before its end")
    await converge_class(house, name)
    return house.classes.named(name)


async def remove_class(house: House, actor: str, name: str) -> None:
    """What is written of it; homes set aside, hand-ins and accounts stay."""
    taught = house.classes.named(name)
    if taught.state(house.clock()) is not ClassState.ARCHIVED:
        raise Conflict(f"class {name} is not archived", f"Archive it first: fairy class archive {name}.")
    await house.classes.remove(name)
    await note(house, actor, f"class:{name}", "class_removed", "hand-ins and homes set aside stay on the disk")


def living(house: House, name: str) -> SchoolClass:
    taught = house.classes.named(name)
    if taught.state(house.clock()) in (ClassState.CLOSING, ClassState.ARCHIVED):
        raise Conflict(f"class {name} is over", "Make a new one with the same roster: its students keep their accounts.")
    return taught


def sessions_of(house: House, members: Sequence[Member]) -> list[Session]:
    owners = {member.user for member in members}
    return [session for session in house.book if session.owner in owners]


def class_words(looked: Looked) -> str:
    return f"{roster_words(looked.plan)}; {dates_words(looked.taught)}"


def roster_words(plan: RosterPlan, disabled: int = 0) -> str:
    counts = (
        (len(plan.added), "added"), (len(plan.back), "back"), (len(plan.joined), "joined"), (len(plan.same), "as they were"),
        (disabled, "shut out"),
    )  # fmt: skip
    return ", ".join(f"{count} {what}" for count, what in counts if count) or "nobody"


def dates_words(taught: SchoolClass) -> str:
    return f"team {taught.team}, {taught.start:%Y-%m-%d %H:%M} to {taught.end:%Y-%m-%d %H:%M} UTC"
