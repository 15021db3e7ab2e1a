"""Classes as the admin page shows them: rows, one class with its students, a roster that was looked at, links just made."""
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from gpufairy.control.class_deeds import Looked
from gpufairy.control.class_links import MadeLink, has_come
from gpufairy.control.house import House
from gpufairy.core.classes import Bounds, ClassState, Member, SchoolClass, Standing
from gpufairy.web.asked import asked
from gpufairy.web.speech import _, ngettext
from gpufairy.web.words import Mark, clock_words, hue_of


@dataclass(frozen=True, slots=True)
class ClassRow:
    name: str
    href: str
    mark: Mark
    students: int
    team: str
    start: str
    end: str
    hand_ins: str


@dataclass(frozen=True, slots=True)
class StudentRow:
    user: str
    href: str
    hue: str
    name: str
    email: str
    mark: Mark
    handed_in: str
    relinks: bool  # a link can be made for them


@dataclass(frozen=True, slots=True)
class ClassPage:
    row: ClassRow
    taught: SchoolClass
    answer: str
    next_step: str
    over: bool
    archived: bool
    students: tuple[StudentRow, ...]
    quota: str
    each: str
    teachers: str
    start: str  # as a form takes it, with the next two
    end: str
    due: str
    mounts: bool
    aside: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a roster would do."""

    answer: str
    applies: bool  # as a new class; else to one that is there
    fine: bool
    groups: tuple[tuple[str, tuple[Member, ...]], ...]
    missing: int
    faults: tuple[tuple[str, str], ...]
    read_as: str


@dataclass(frozen=True, slots=True)
class LinkRow:
    user: str
    name: str
    email: str
    url: str


def classes_answer(house: House) -> str:
    living = [found for found in house.classes.all() if found.archived_at is None]
    if not living:
        return _("No class runs now.")
    count = sum(len(house.classes.members(found.name)) for found in living)
    classes = ngettext("{count} class", "{count} classes", len(living)).format(count=len(living))
    students = ngettext("{count} student", "{count} students", count).format(count=count)
    return f"{classes}, {students}."


def class_rows(house: House) -> tuple[ClassRow, ...]:
    return tuple(class_row(house, found) for found in house.classes.all())


def class_row(house: House, found: SchoolClass) -> ClassRow:
    now = house.clock()
    until = clock_words(found.hand_in_until, now)
    hand_ins = _("open until {time}").format(time=until) if house.classes.takes_hand_ins(found) else _("closed")
    return ClassRow(
        found.name, f"/admin/classes?name={quote(found.name)}", state_mark(found.state(now)), len(house.classes.members(found.name)),
        found.team, clock_words(found.start, now), clock_words(found.end, now), hand_ins,
    )  # fmt: skip


def state_mark(state: ClassState) -> Mark:
    marks = {
        ClassState.BEFORE: Mark(_("Not begun"), "wait"), ClassState.OPEN: Mark(_("Open"), "run"),
        ClassState.CLOSING: Mark(_("Closing"), "start"), ClassState.ARCHIVED: Mark(_("Archived"), "end"),
    }  # fmt: skip
    return marks[state]


async def class_page(house: House, found: SchoolClass) -> ClassPage:
    now, members, folders = house.clock(), house.classes.members(found.name), house.classes.folders
    linked = await house.classes.store.linked()
    handed = {} if folders is None else folders.handed_in(found.name)
    over = found.state(now) in (ClassState.CLOSING, ClassState.ARCHIVED)
    students = tuple(student_row(house, member, member.user in linked, handed.get(member.user, 0), over) for member in members)
    waiting = sum(not has_come(house, member.user) for member in members if member.standing is Standing.IN)
    answer = ngettext("{name}: {count} student.", "{name}: {count} students.", len(members)).format(name=found.name, count=len(members))
    return ClassPage(
        class_row(house, found), found, answer, next_step(found, now, waiting), over, found.archived_at is not None, students,
        bounds_words(found.quota), bounds_words(found.each), ", ".join(found.teachers), typed(found.start), typed(found.end),
        "" if found.due is None else typed(found.due), house.classes.mounts_hand_ins,
        () if folders is None else tuple(path.name for path in folders.aside_of(found.name)),
    )  # fmt: skip


def next_step(found: SchoolClass, now: datetime, waiting: int) -> str:
    match found.state(now):
        case ClassState.ARCHIVED:
            return _("It is over: accounts are shut, hand-ins are kept.")
        case ClassState.CLOSING:
            return _("It is over: sessions end, then homes are set aside.")
        case ClassState.BEFORE if not waiting:
            return _("Everybody has come in. Nobody starts anything before {time}.").format(time=clock_words(found.start, now))
    if waiting:
        words = ngettext("{count} has not come in yet: make them a link.", "{count} have not come in yet: make them links.", waiting)
        return words.format(count=waiting)
    return _("Everybody has come in. It is archived by itself when it ends.")


def student_row(house: House, member: Member, linked: bool, handed_in: int, over: bool) -> StudentRow:
    count = ngettext("{count} thing", "{count} things", handed_in).format(count=handed_in) if handed_in else "–"
    return StudentRow(
        member.user, f"/admin/users/{quote(member.user)}", hue_of(member.user), member.full_name, member.email,
        student_mark(house, member, linked), count, member.standing is Standing.IN and not over,
    )  # fmt: skip


def student_mark(house: House, member: Member, linked: bool) -> Mark:
    if member.standing is Standing.LEFT:
        return Mark(_("Left"), "end")
    if member.standing is Standing.NEW:
        return Mark(_("Being added"), "start")
    if member.reset_at is not None:
        return Mark(_("Being reset"), "start")
    if has_come(house, member.user):
        return Mark(_("Has come in"), "run")
    return Mark(_("Has a link"), "wait") if linked else Mark(_("No link yet"), "wait")


def bounds_words(bounds: Bounds) -> str:
    told = [
        "" if bounds.gpus is None else _("GPUs at once: {amount}").format(amount=f"{bounds.gpus:g}"),
        "" if bounds.gpu_hours is None else _("GPU-hours in 7 days: {amount}").format(amount=f"{bounds.gpu_hours:g}"),
        "" if bounds.sessions is None else _("sessions at once: {amount}").format(amount=bounds.sessions),
    ]
    return ", ".join(part for part in told if part) or _("no bound")


def typed(at: datetime) -> str:
    """As a browser's own field for a time takes it."""
    return f"{at.astimezone(asked().zone):%Y-%m-%dT%H:%M}"


def preview_of(looked: Looked, *, applies: bool) -> Preview:
    plan = looked.plan
    groups = (
        (_("Accounts that are made"), plan.added), (_("Accounts of an earlier class, opened again"), plan.back),
        (_("Users who take part with their own account"), plan.joined), (_("As they were"), plan.same),
        (_("Not in the roster any more"), plan.missing),
    )  # fmt: skip
    faults = tuple((_("line {number}").format(number=fault.line) if fault.line else _("the file"), fault.words) for fault in plan.faults)
    return Preview(
        preview_answer(len(plan.members), len(faults)), applies, not faults,
        tuple((words, members) for words, members in groups if members), len(plan.missing), faults, read_words(looked),
    )  # fmt: skip


def preview_answer(students: int, faults: int) -> str:
    if faults:
        words = ngettext(
            "{count} line is wrong: nothing can be applied yet.", "{count} lines are wrong: nothing can be applied yet.", faults
        )
        return words.format(count=faults)
    return ngettext("{count} student, and no fault.", "{count} students, and no fault.", students).format(count=students)


def read_words(looked: Looked) -> str:
    delimiters = {",": _("commas"), ";": _("semicolons"), "\t": _("tabs"), "|": _("bars")}
    roster = looked.roster
    if not roster.encoding:
        return ""
    names = {"login": _("login"), "name": _("name"), "email": _("e-mail"), "key": _("SSH key")}
    columns = ", ".join(names.get(column, column) for column in roster.columns)
    return _("Read as {encoding}, parted by {delimiter}; columns: {columns}.").format(
        encoding=roster.encoding.upper(), delimiter=delimiters.get(roster.delimiter, roster.delimiter), columns=columns
    )


def links_of(made: Sequence[MadeLink], url: str) -> tuple[LinkRow, ...]:
    return tuple(LinkRow(one.member.user, one.member.full_name, one.member.email, f"{url}/join?code={one.code}") for one in made)

