"""The door: how sessions come in and are asked to leave. Whatever is refused is refused here, before anything is written."""
import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from gpufairy.control.house import House
from gpufairy.control.registry import Caller
from gpufairy.core.admit import check_ever_fits, check_fit_together
from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput, Conflict, EngineRefused, NeverFits, NoSuchThing, NotAllowed, TooMany
from gpufairy.core.limits import Limit
from gpufairy.core.names import idempotency_key, made_up, nearest, session_name
from gpufairy.core.people import User
from gpufairy.core.session import Outcome, Request, Session, Wanted
from gpufairy.core.steps import event, want_stopped
from gpufairy.devices.mig_tables import mig_tables
from gpufairy.store.sessions import IdempotencyKey
from gpufairy.wire.submit import Submission, SubmitBody, understood


async def submit(house: House, caller: Caller, body: SubmitBody, presets: Mapping[str, SubmitBody], key: str | None) -> list[Session]:
    user = caller.user
    known_by = idempotency(user, body, key)
    if known_by is not None and (made := await house.store.sessions.made_with(known_by)):
        return made
    sessions = await asked_for(house, caller, body, presets)
    events = [event(session, "submitted", session.submitted_at, "submitted", actor=user.name) for session in sessions]
    with house.book.reserved(user.name, [session.name for session in sessions]):
        return await house.add(sessions, events, known_by)


async def asked_for(house: House, caller: Caller, body: SubmitBody, presets: Mapping[str, SubmitBody]) -> list[Session]:
    """The sessions that this would make; nothing is written. Raises whatever it would be refused for."""
    user = caller.user
    house.classes.check_may_start(user)
    body = house.classes.filled(user, body)
    submission = understood(from_preset(body, presets), has_gpus=any(node.gpus for node in house.with_coming))
    check_rights(caller, submission)
    request = replace(submission.request, after=await ids_of(house, user, submission.request.after))
    check_ever_fits(request, house.with_coming, mig_tables())
    if submission.together:
        check_fit_together(request, submission.count or 1, house.with_coming)
        request = replace(request, gang=secrets.token_hex(10), gang_size=submission.count or 1)
    request = await house.gallery.chosen(caller, request, house.with_coming)
    request = replace(request, mounts=house.classes.mounts(user, request.mounts, root_inside=is_root(house, request)))
    check_engine(house, request)
    # From here to the end nothing is awaited: nobody else is given these names before the caller has reserved them.
    now = house.clock()
    sessions = [
        Session(
            id=secrets.token_hex(10), name=name, owner=user.name, team=submission.team or user.team, kind=submission.kind,
            request=request, submitted_at=now, since=now, priority=submission.priority,
        )
        for name in names_for(house, user, submission)
    ]  # fmt: skip
    house.quotas.check(sessions[0], house.with_coming)
    check_room_in_line(house, user.name, len(sessions))
    return sessions


def check_room_in_line(house: House, owner: str, more: int) -> None:
    waiting, most = house.book.waiting_of(owner), house.policy.most_queued
    if waiting + more > most:
        house.refusals.count(Limit.QUEUED_PER_USER)
        found = f"{owner} has {waiting:,} sessions that wait, and {most:,} is the most; {more:,} more asked"
        raise TooMany(found, "Let some of them start, or stop some. An admin can allow more: limits.queued_per_user.")


def is_root(house: House, request: Request) -> bool:
    return request.image is not None and house.gallery.rules.root_inside(request.image)


def check_engine(house: House, request: Request) -> None:
    try:
        house.engine.check(request)
    except EngineRefused as error:
        raise NeverFits(error.detail, error.next_step) from error


def from_preset(body: SubmitBody, presets: Mapping[str, SubmitBody]) -> SubmitBody:
    if body.preset is None:
        return body
    if body.preset not in presets:
        offered = ", ".join(sorted(presets)) or "none"
        raise BadInput(f"preset: no {shown(body.preset)}{nearest(body.preset, presets)}", f"Presets offered here: {offered}.")
    return body.filled_from(presets[body.preset])


def check_rights(caller: Caller, submission: Submission) -> None:
    user = caller.user
    if caller.is_admin:
        return
    if submission.priority > 0:
        found = f"priority: {submission.priority} asked; above 0 is for admins"
        raise NotAllowed(found, "Leave it out, or give less than 0 to let others pass.")
    if submission.team not in (None, user.team):
        raise NotAllowed(f"team: {user.name} is not in team {submission.team}", f"Leave it out; your team is {user.team or 'none'}.")


async def ids_of(house: House, user: User, names: Sequence[str]) -> tuple[str, ...]:
    found = [house.book.named(user.name, name) or await house.store.sessions.named(user.name, name) for name in names]
    for name, session in zip(names, found, strict=True):
        if session is None:
            raise NoSuchThing(f"after: {user.name} has no session {name!r}", "See `fairy ps -a` for yours.")
    return tuple(session.id for session in found if session is not None)


def copies(stem: str, count: int | None) -> list[str]:
    return [stem] if count is None else [f"{stem}-{number}" for number in range(1, count + 1)]


def names_for(house: House, user: User, submission: Submission) -> list[str]:
    is_taken = partial(house.book.is_taken, user.name)
    names = copies(submission.name, submission.count) if submission.name else new_names(house, user, submission.count)
    session_name(names[-1])
    taken = [name for name in names if is_taken(name)]
    if taken:
        raise Conflict(f"name: {user.name} already has a session {taken[0]!r}", f"Stop it (fairy stop {taken[0]}) or choose another name.")
    return names


def new_names(house: House, user: User, count: int | None) -> list[str]:
    """Made up; not one that a session of theirs had of late, since its log and results are found by it."""
    chance = secrets.randbelow(1 << 30)
    return copies(made_up(chance, lambda stem: any(house.book.was_used(user.name, name) for name in copies(stem, count))), count)


def idempotency(user: User, body: SubmitBody, key: str | None) -> IdempotencyKey | None:
    if key is None:
        return None
    sent = json.dumps(body.model_dump(exclude_none=True), sort_keys=True)
    return IdempotencyKey(user.name, idempotency_key(key), hashlib.sha256(sent.encode()).hexdigest())


async def ask_to_stop(house: House, sessions: Sequence[Session], actor: str, why: str) -> list[Session]:
    """Sets what is wanted of all at once, so that none starts in another's place; the loops do the rest.

    Asked twice, or of one that has ended: as it is.
    """
    ids = [session.id for session in sessions]
    while running := [live for key in ids if (live := house.book.get(key)) is not None and live.wanted is Wanted.RUN]:
        await house.save([want_stopped(live, house.clock(), outcome=Outcome.STOPPED, why=why, actor=actor) for live in running])
    return [house.book.get(session.id) or await house.store.sessions.get(session.id) or session for session in sessions]


def notes_on(request: Request, ignores: frozenset[str], engine: str) -> list[str]:
    """What the engine here cannot honour, said at once rather than found out later."""
    given = [name for name in sorted(ignores) if getattr(request, name) not in (None, ())]
    return [f"{name} is not used here: the {engine} engine runs commands on the machine itself" for name in given]


def waits_for(house: House, session: Session) -> list[str]:
    """Names of live sessions that must end before this one may line up."""
    return [other.name for session_id in session.request.after if (other := house.book.get(session_id)) is not None]
