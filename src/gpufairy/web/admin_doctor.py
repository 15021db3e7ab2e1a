"""Admin: the doctor. What is wrong with the server's own host, and the lines that mend it, to be copied."""
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control.doctor import Checkup, Doctor, look_for
from gpufairy.core.doctor import Finding, Verdict, counted
from gpufairy.core.errors import Conflict
from gpufairy.web.admin import Fields, add_page, show_admin
from gpufairy.web.context import PageContext
from gpufairy.web.forms import no_such_deed
from gpufairy.web.pages import LOOK_AGAIN_S
from gpufairy.web.speech import _, ngettext
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import Mark, ago_words

TROUBLES = (Verdict.BAD, Verdict.WARN)


@dataclass(frozen=True, slots=True)
class StepRow:
    asks: str
    mark: Mark
    found: str


@dataclass(frozen=True, slots=True)
class CheckRow:
    check: str
    about: str
    mark: Mark
    found: str
    why: str
    fix: str  # lines to copy
    steps: tuple[StepRow, ...]


@dataclass(frozen=True, slots=True)
class DoctorPage:
    answer: str
    next_step: str
    under_way: bool
    looked: str  # where and when
    by_night: str  # when it looks by itself
    troubles: tuple[CheckRow, ...]
    others: tuple[CheckRow, ...]
    absent: tuple[tuple[str, tuple[str, ...]], ...]  # why there is nothing to look at, and what for


def add_doctor(router: APIRouter, context: PageContext) -> None:
    doctor = context.doctor

    async def page(request: Request, trouble: Trouble | None) -> Response:
        if doctor is not None and doctor.last is None:
            doctor.begin()  # whoever comes first waits on a page that fills itself
        return show_admin(request, "doctor", trouble, refresh_s=LOOK_AGAIN_S, seen=doctor_page(context))

    async def change(admin: str, deed: str, fields: Fields) -> str:
        if doctor is None:
            raise Conflict("there is no doctor on this server", "Start it with `fairy up`.")
        if deed != "look":
            raise no_such_deed(deed)
        await look_for(context.house, doctor, admin)
        return "/admin/doctor"

    add_page(router, context, "/admin/doctor", page, change)


def doctor_page(context: PageContext) -> DoctorPage:
    doctor = context.doctor
    if doctor is None or doctor.last is None:
        return DoctorPage(_("The doctor is looking…"), _("It takes some seconds; this page fills itself."), True, "", "", (), (), ())
    last = doctor.last
    rows = [(one.verdict, check_row(one)) for one in last.findings]
    troubles = [row for verdict in TROUBLES for found, row in rows if found is verdict]
    others = [row for found, row in rows if found not in (*TROUBLES, Verdict.SKIPPED)]
    host = next((one.where for one in last.findings if one.where), "")
    looked = _("{host}, looked at {ago}").format(host=host, ago=ago_words(last.at, context.house.clock()))
    now, night = next_step(last, doctor), by_night(doctor)
    return DoctorPage(answer(last), now, doctor.under_way, looked, night, tuple(troubles), tuple(others), absent(last))


def by_night(doctor: Doctor) -> str:
    if doctor.nightly is None:
        return _("It looks only when asked: by night it is switched off in the settings.")
    words = _("It looks by itself at {hour} each night, and mends nothing; what fails then is an alert.")
    return words.format(hour=f"{doctor.nightly:%H:%M}")


def absent(last: Checkup) -> tuple[tuple[str, tuple[str, ...]], ...]:
    reasons: dict[str, list[str]] = {}
    for one in last.findings:
        if one.verdict is Verdict.SKIPPED:
            reasons.setdefault(one.found, []).append(one.about)
    return tuple((why, tuple(what)) for why, what in reasons.items())


def answer(last: Checkup) -> str:
    sums = counted(last.findings)
    if sums[Verdict.BAD]:
        words = ngettext("{count} thing is broken or not safe.", "{count} things are broken or not safe.", sums[Verdict.BAD])
        return words.format(count=sums[Verdict.BAD])
    if sums[Verdict.WARN]:
        words = ngettext(
            "Nothing is broken; {count} thing could go wrong.", "Nothing is broken; {count} things could go wrong.", sums[Verdict.WARN]
        )
        return words.format(count=sums[Verdict.WARN])
    return _("Nothing is wrong with the server's host.")


def next_step(last: Checkup, doctor: Doctor) -> str:
    if doctor.under_way:
        return _("The doctor is looking again…")
    if any(one.verdict in TROUBLES for one in last.findings):
        return _("Type the lines below on the host; each says why it matters.")
    return _("The same for another machine: `fairy doctor`, typed there.")


def check_row(one: Finding) -> CheckRow:
    steps = tuple(StepRow(step.asks, verdict_mark(step.verdict), step.found) for step in one.steps)
    return CheckRow(one.check, one.about, verdict_mark(one.verdict), one.found, one.why, "\n".join(one.fix), steps)


def verdict_mark(verdict: Verdict) -> Mark:
    return {
        Verdict.OK: Mark(_("well"), "run"), Verdict.WARN: Mark(_("look at it"), "wait"), Verdict.BAD: Mark(_("bad"), "bad"),
        Verdict.UNKNOWN: Mark(_("not known"), "start"), Verdict.SKIPPED: Mark(_("not here"), "end"),
    }[verdict]  # fmt: skip
