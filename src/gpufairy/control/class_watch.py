"""The loop of classes: makes the accounts that a roster asks for, closes hand-ins when they are due, archives what is over.

Each step is done again until it is so, and nothing else is remembered: a server killed at any point goes on where it was.
"""
import asyncio
import logging
from collections.abc import Sequence
from dataclasses import asdict, replace

from gpufairy.control.audit import note
from gpufairy.control.door import ask_to_stop
from gpufairy.control.house import House
from gpufairy.control.roster import in_force
from gpufairy.core.classes import Bounds, ClassState, Homes, Member, SchoolClass, Standing
from gpufairy.core.errors import Conflict, FairyError, NoSuchThing
from gpufairy.core.people import Role, User
from gpufairy.core.quota_rules import ANY_KIND
from gpufairy.core.session import Session, Wanted
from gpufairy.core.ssh_key import parse_key
from gpufairy.wire.teams import QuotaBody

log = logging.getLogger("gpufairy.classes")


async def look_at_classes(house: House) -> None:
    """A loop's turn."""
    for taught in house.classes.all():
        if taught.archived_at is None:
            await converge_class(house, taught.name)


async def converge_class(house: House, name: str) -> None:
    async with house.classes.one_at_a_time:
        taught = house.classes.named(name)
        if taught.state(house.clock()) is ClassState.CLOSING:
            await close(house, taught)
        elif taught.archived_at is None:
            await let_in(house, taught)
            await shut_out(house, taught)
            await follow_due_date(house, taught)
            await reset(house, taught)


async def pack_homes(house: House) -> None:
    """A turn of another loop: one home a turn, in a thread. It may be large, and nobody waits for it."""
    folders = house.classes.folders
    for taught in house.classes.all():
        if folders is not None and taught.archived_at is not None and taught.homes is Homes.TAR:
            try:
                await asyncio.to_thread(folders.pack_next, taught.name)
            except (FairyError, OSError) as error:
                log.warning("class %s: a home set aside stays a folder: %s", taught.name, error)


async def let_in(house: House, taught: SchoolClass) -> None:
    new = [member for member in house.classes.members(taught.name) if member.standing is Standing.NEW]
    if not new:
        return
    if taught.team not in {team.name for team in house.teams.all() if team.created_at is not None}:
        await house.teams.add(taught.team, 1.0)
    await set_bounds(house, f"team:{taught.team}", taught.quota)
    for member in new:
        user = await account_of(house, taught, member)
        if member.key:
            await add_key(house, member)
        if member.made_here:
            await set_bounds(house, f"user:{user.name}", taught.each)
        if house.classes.folders is not None:
            await asyncio.to_thread(house.classes.folders.make_hand_in, taught.name, user.name, user.uid)
        await house.classes.put_members([replace(member, standing=Standing.IN, key="")])
    house.bells.place.set()
    await in_force(house)


async def account_of(house: House, taught: SchoolClass, member: Member) -> User:
    try:
        user = house.registry.user(member.user)
    except NoSuchThing:
        return await house.registry.add_user(member.user, Role.USER, taught.team)
    disabled = False if member.made_here else None  # whoever was shut out before the class stays so
    return await house.registry.change_user(user.name, team=taught.team, disabled=disabled)


async def add_key(house: House, member: Member) -> None:
    try:
        await house.keyring.add(parse_key(member.key, member.user, house.clock()))
    except Conflict as error:  # somebody else has registered it since the roster was looked at
        log.warning("class %s: the key of %s in the roster was not taken: %s", member.of, member.user, error)


async def set_bounds(house: House, of: str, bounds: Bounds) -> None:
    """Where there is none yet: what an admin has said since stays."""
    if bounds.said and not has_bounds(house, of):
        body = QuotaBody(of=of, **{name: value for name, value in asdict(bounds).items() if value is not None})
        await house.quotas.set(of, ANY_KIND, body.changed, house.nodes)


def has_bounds(house: House, of: str) -> bool:
    return any(quota.of == of and quota.gpu_kind == ANY_KIND for quota in house.quotas.all())


async def shut_out(house: House, taught: SchoolClass) -> None:
    """Who is no longer in the roster: their sessions end, and their account is shut if it was made for a class."""
    still = [member for member in in_team(house, taught) if member.standing is Standing.LEFT]
    await end_sessions(house, still, f"not in the roster of class {taught.name} any more")
    for member in still:
        await give_back(house, taught, member)


def in_team(house: House, taught: SchoolClass) -> list[Member]:
    """Members who have an account, in the class's team."""
    users = {user.name for user in house.registry.users() if user.team == taught.team}
    return [member for member in house.classes.members(taught.name) if member.user in users]


async def give_back(house: House, taught: SchoolClass, member: Member) -> None:
    """An account made for a class is shut; who was here before is as they were."""
    if member.made_here and taught.each.said and has_bounds(house, f"user:{member.user}"):
        await house.quotas.unset(f"user:{member.user}", ANY_KIND)
    await house.registry.change_user(member.user, team=member.team_before or "", disabled=True if member.made_here else None)


async def follow_due_date(house: House, taught: SchoolClass) -> None:
    """What is mounted from then on is read-only by the clock alone; this is for sessions that have it open."""
    folders, is_due = house.classes.folders, house.clock() >= taught.hand_in_until
    if folders is None or is_due == taught.frozen:
        return
    uids = {user.name: user.uid for user in house.registry.users()}
    for user in [member.user for member in house.classes.members(taught.name) if member.user in uids]:
        if is_due:
            await asyncio.to_thread(folders.close_hand_in, taught.name, user)
        else:
            await asyncio.to_thread(folders.open_hand_in, taught.name, user, uids[user])
    await house.classes.put(replace(house.classes.named(taught.name), frozen=is_due))
    words = "hand-ins are closed, and can be read" if is_due else "hand-ins are open again"
    await note(house, "", f"class:{taught.name}", "class_due", words)


async def reset(house: House, taught: SchoolClass) -> None:
    waiting = [member for member in house.classes.members(taught.name) if member.reset_at is not None]
    await end_sessions(house, waiting, f"class {taught.name} is reset")
    await set_aside(house, taught, waiting)


async def close(house: House, taught: SchoolClass) -> None:
    """Accounts first, so that nothing new begins; then sessions; then homes, once nothing runs; then it is archived."""
    if taught.closing_at is None:
        await house.classes.put(replace(taught, closing_at=house.clock()))
    await house.classes.store.drop_links(taught.name)
    await follow_due_date(house, taught)
    for member in in_team(house, taught):
        await give_back(house, taught, member)
    await in_force(house)
    theirs = [member for member in house.classes.members(taught.name) if member.made_here and member.standing is not Standing.NEW]
    await end_sessions(house, theirs, f"class {taught.name} is over")
    if {member.user for member in theirs} & {session.owner for session in house.book}:
        return
    await set_aside(house, taught, [member for member in theirs if taught.homes is not Homes.KEEP or member.reset_at is not None])
    await close_team(house, taught)
    await house.classes.put(replace(house.classes.named(taught.name), archived_at=house.clock()))
    await note(house, "", f"class:{taught.name}", "class_archived", f"{len(theirs)} accounts shut, homes: {taught.homes}")


async def close_team(house: House, taught: SchoolClass) -> None:
    """With its quota, unless somebody else was put into it meanwhile."""
    if taught.team in {team.name for team in house.teams.all()} and not house.teams.members(taught.team):
        await house.teams.remove(taught.team)
        await house.quotas.read_again()
        house.bells.place.set()


async def end_sessions(house: House, members: Sequence[Member], why: str) -> None:
    owners = {member.user for member in members}
    sessions: list[Session] = [session for session in house.book if session.owner in owners and session.wanted is Wanted.RUN]
    if sessions:
        await ask_to_stop(house, sessions, "", why)


async def set_aside(house: House, taught: SchoolClass, members: Sequence[Member]) -> None:
    """The homes of those of whom nothing runs; of the others at another turn."""
    folders, now, busy = house.classes.folders, house.clock(), {session.owner for session in house.book}
    for member in members:
        if member.user in busy:
            continue
        there = None if folders is None else await asyncio.to_thread(folders.set_aside, taught.name, member.user, now)
        if there is not None:
            await note(house, "", f"user:{member.user}", "home_set_aside", str(there))
        if member.reset_at is not None:
            await house.classes.put_members([replace(member, reset_at=None)])
