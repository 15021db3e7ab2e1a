"""Classes: students who share a team and a quota from a first day to a last one, and what a roster would change about them. Pure."""
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.people import Role, User
from gpufairy.core.roster_file import Fault, RosterFile, Student

CLASS_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
HAND_IN = "handin"  # before a class's name, in what sessions mount


class Homes(StrEnum):
    """What becomes of students' homes at the end. Nothing is ever deleted that was not set aside before."""

    KEEP = "keep"  # they stay where they are
    ASIDE = "aside"  # moved beside the homes, as they are
    TAR = "tar"  # moved, and made one file each


class Standing(StrEnum):
    """Of a student in a class."""

    NEW = "new"  # to be let in: the account is made, or opened again
    IN = "in"
    LEFT = "left"  # no longer in the roster, and shut out


class ClassState(StrEnum):
    BEFORE = "before"  # students may sign in and add keys, and start nothing yet
    OPEN = "open"
    CLOSING = "closing"  # over; sessions end, homes are set aside
    ARCHIVED = "archived"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may be held at most; None: no bound."""

    gpus: float | None = None
    gpu_hours: float | None = None  # in seven days
    sessions: int | None = None

    @property
    def said(self) -> bool:
        return self != Bounds()


@dataclass(frozen=True, slots=True)
class SchoolClass:
    name: str
    team: str
    start: datetime
    end: datetime
    made_at: datetime
    made_by: str
    due: datetime | None = None  # hand-ins are closed from then on; None: at the end
    preset: str | None = None  # what a session of theirs is made of, where they do not say
    gpus: str | None = None  # the share that they get, where they do not say
    image: str | None = None
    quota: Bounds = Bounds()  # of the team
    each: Bounds = Bounds()  # of each student
    teachers: tuple[str, ...] = ()  # they read what is handed in
    homes: Homes = Homes.TAR
    closing_at: datetime | None = None
    archived_at: datetime | None = None
    frozen: bool = False  # hand-ins are read-only now

    def state(self, now: datetime) -> ClassState:
        if self.archived_at is not None:
            return ClassState.ARCHIVED
        if self.closing_at is not None or now >= self.end:
            return ClassState.CLOSING
        return ClassState.BEFORE if now < self.start else ClassState.OPEN

    @property
    def hand_in_until(self) -> datetime:
        return self.end if self.due is None else min(self.due, self.end)


@dataclass(frozen=True, slots=True)
class Member:
    """A student in a class."""

    of: str  # the class
    user: str
    full_name: str = ""
    email: str = ""
    key: str = ""  # from the roster, until it is theirs
    standing: Standing = Standing.NEW
    made_here: bool = True  # the account was made for a class: it is shut when the class is over
    team_before: str | None = None  # of one who was here before, given back at the end
    reset_at: datetime | None = None  # the home is to be set aside as soon as nothing of theirs runs


@dataclass(frozen=True, slots=True)
class RosterPlan:
    """What a roster would change. With any fault nothing is done."""

    added: tuple[Member, ...] = ()
    back: tuple[Member, ...] = ()  # they are known: an account of an earlier class, or one who left
    joined: tuple[Member, ...] = ()  # users of their own, who take part
    same: tuple[Member, ...] = ()
    missing: tuple[Member, ...] = ()  # in the class, and not in the roster
    faults: tuple[Fault, ...] = ()

    @property
    def members(self) -> tuple[Member, ...]:
        """Those who are to be in the class by it, without the missing."""
        return (*self.added, *self.back, *self.joined, *self.same)


@dataclass(frozen=True, slots=True)
class Known:
    """What is there before a roster is applied."""

    users: Mapping[str, User]
    members: Sequence[Member]  # of this class
    elsewhere: Mapping[str, str]  # who is in another class that is not over: its name
    made_for_classes: frozenset[str]  # users whose accounts were made for one
    key_owners: Mapping[str, str]  # by the text of a key, whose it is


def class_name(text: str) -> str:
    if CLASS_NAME.fullmatch(text) is None:
        next_step = "Use up to 40 of a-z, 0-9 and -, beginning and ending with a letter or figure."
        raise BadInput(f"class: {shown(text)} is no name of a class", next_step)
    return text


def plan_roster(name: str, roster: RosterFile, known: Known, *, take_users: bool) -> RosterPlan:
    """`take_users`: students may have accounts of their own here already."""
    faults = list(roster.faults)
    kinds: dict[str, list[Member]] = {"added": [], "back": [], "joined": [], "same": []}
    here = {member.user: member for member in known.members}
    for student in roster.students:
        trouble = clash(student, known, here, take_users=take_users)
        if trouble is not None:
            faults.append(Fault(student.line, trouble))
            continue
        kind, member = _standing(name, student, here.get(student.login), known)
        kinds[kind].append(member)
    named = {student.login for student in roster.students}
    missing = [member for member in known.members if member.user not in named and member.standing is not Standing.LEFT]
    return RosterPlan(**{kind: tuple(found) for kind, found in kinds.items()}, missing=tuple(missing), faults=_in_order(faults))


def clash(student: Student, known: Known, here: Mapping[str, Member], *, take_users: bool) -> str | None:
    """Why this line cannot be: whose login it is already."""
    owner = known.key_owners.get(" ".join(student.key.split()[:2])) if student.key else None
    if owner not in (None, student.login):
        return f"the SSH key of {student.login} is registered to {owner}"
    if student.login in known.elsewhere:
        return f"{student.login} is in class {known.elsewhere[student.login]}, which is not over: nobody is in two classes at once"
    user = known.users.get(student.login)
    if user is None or student.login in here or student.login in known.made_for_classes:
        return None
    if user.role is Role.ADMIN:
        return f"{student.login} is an admin here, and no student"
    if not take_users:
        return f"there is a user {student.login} already, of no class: the same person may take part (--take-users), else change the login"
    return None


def _standing(name: str, student: Student, there: Member | None, known: Known) -> tuple[str, Member]:
    new = Member(name, student.login, student.name, student.email, student.key)
    if there is not None:
        changed = replace(new, standing=there.standing, made_here=there.made_here, team_before=there.team_before, reset_at=there.reset_at)
        back = there.standing is Standing.LEFT
        return ("back", replace(changed, standing=Standing.NEW)) if back else ("same", changed)
    user = known.users.get(student.login)
    if user is None:
        return "added", new
    if student.login in known.made_for_classes:
        return "back", new
    return "joined", replace(new, made_here=False, team_before=user.team)


def _in_order(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    return tuple(sorted(faults, key=lambda fault: (fault.line, fault.words)))


def fault_words(faults: Sequence[Fault], most: int = 20) -> str:
    """`line 3: login: none given; line 7: …`."""
    told = [f"line {fault.line}: {fault.words}" if fault.line else fault.words for fault in faults[:most]]
    return "; ".join(told) + (f"; and {len(faults) - most} more" if len(faults) > most else "")
