"""Admin: how GPUs are shared. fGPU and the means for each, what the last self-test found to hold, and starting one."""
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control import govern
from gpufairy.control.house import House
from gpufairy.control.selftest import IsolationSelftest, News, NotTested
from gpufairy.core.errors import Conflict
from gpufairy.core.isolation import WHATS, overall
from gpufairy.core.node import Gpu, Node, Sharing
from gpufairy.core.people import User
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import ALL, MEMORY, SHARED_FAULTS, SM, IsolationTest, ShareRule, Verdict, sharing_of
from gpufairy.web.admin import Fields, add_page, number_in, said, show_admin
from gpufairy.web.context import PageContext
from gpufairy.web.forms import no_such_deed
from gpufairy.web.pages import LOOK_AGAIN_S
from gpufairy.web.speech import _, ngettext
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import Mark, ago_words
from gpufairy.wire.read import read
from gpufairy.wire.shares import HOW_MANY_FGPU, ShareBody

NEWS_KEPT = 30  # lines of the self-test that was begun here last


@dataclass(frozen=True, slots=True)
class HeldRow:
    what: str
    mark: Mark


@dataclass(frozen=True, slots=True)
class ShareRow:
    """GPUs of one host that are alike in all that this page tells."""

    node: str
    gpus: str  # `4 × A100-40GB`
    indices: str
    simulated: bool
    sharing: str
    fgpu: str
    held: tuple[HeldRow, ...]
    tested: str


@dataclass(frozen=True, slots=True)
class TestRow:
    gpu: str
    when: str
    verdicts: tuple[HeldRow, ...]
    tries: tuple[tuple[str, Mark, str], ...]  # which way, how it went, what was found


@dataclass(frozen=True, slots=True)
class SharesPage:
    answer: str
    next_step: str
    rows: tuple[ShareRow, ...]
    rules: tuple[tuple[str, str, str], ...]  # of which GPUs, fGPU, how shared
    tests: tuple[TestRow, ...]
    names: tuple[str, ...]
    real: tuple[tuple[str, str], ...]  # GPUs that can be tested: UUID, words
    under_way: bool
    news: tuple[str, ...]
    note: str


def add_shares(router: APIRouter, context: PageContext) -> None:
    house, selftest = context.house, context.selftest
    news: deque[str] = deque(maxlen=NEWS_KEPT)

    async def page(request: Request, trouble: Trouble | None) -> Response:
        return show_admin(request, "shares", trouble, refresh_s=LOOK_AGAIN_S, seen=shares_page(house, selftest, tuple(news)))

    async def change(admin: str, deed: str, fields: Fields) -> str:
        if deed == "test":
            begin_test(house.registry.user(admin), fields)
        else:
            await change_shares(house, admin, deed, fields)
        return "/admin/shares"

    add_page(router, context, "/admin/shares", page, change)

    def begin_test(admin: User, fields: Fields) -> None:
        if selftest is None:
            raise Conflict("there is no self-test on this server", "Start it with `fairy up`.")
        gpu = said(fields, "gpu")
        selftest.begin(admin, None if gpu is None else [gpu], lambda told: news.append(news_words(told)))
        news.clear()


async def change_shares(house: House, admin: str, deed: str, fields: Fields) -> None:
    match deed:
        case "set":
            await govern.set_sharing(house, admin, rule_of(fields))
        case "clear":
            await govern.clear_sharing(house, admin, fields.get("of", ""))
        case _:
            raise no_such_deed(deed)


def rule_of(fields: Fields) -> ShareRule:
    fgpu = number_in(fields, "fgpu", HOW_MANY_FGPU)
    return read(ShareBody, {"of": said(fields, "of") or ALL, "fgpu": fgpu, "sharing": said(fields, "sharing")}, "share").to_rule()


def shares_page(house: House, selftest: IsolationSelftest | None, news: tuple[str, ...]) -> SharesPage:
    now, tests = house.clock(), {(test.gpu, test.sharing): test for test in house.shares.tests()}
    groups: dict[tuple[object, ...], list[Gpu]] = {}
    for node in house.nodes:
        for gpu in node.gpus:
            groups.setdefault(alike(node, gpu, tests.get((gpu.uuid, sharing_of(gpu))), now), []).append(gpu)
    rows = tuple(share_row(str(key[0]), gpus, str(key[-1])) for key, gpus in groups.items())
    gpus = [gpu for node in house.nodes for gpu in node.gpus]
    real = tuple((gpu.uuid, f"{node.name} GPU {gpu.index}, {gpu.kind}") for node in house.nodes for gpu in node.gpus if not gpu.simulated)
    return SharesPage(
        answer(gpus), next_step(gpus, house.engine.name), rows,
        tuple(rule_words(rule) for rule in house.shares.rules()),
        tuple(test_row(test, now) for test in house.shares.tests()), (ALL, *sorted({gpu.kind for gpu in gpus})), real,
        selftest is not None and selftest.under_way, news, SHARED_FAULTS,
    )  # fmt: skip


def rule_words(rule: ShareRule) -> tuple[str, str, str]:
    fgpu = "" if rule.fgpu_parts is None else f"{rule.fgpu_parts / PARTS:g}"
    return rule.of, fgpu, "" if rule.sharing is None else sharing_words(rule.sharing)


def alike(node: Node, gpu: Gpu, test: IsolationTest | None, now: datetime) -> tuple[object, ...]:
    tested = _("never tested") if test is None else _("tested {ago}").format(ago=ago_words(test.at, now))
    return node.name, gpu.kind, gpu.simulated, sharing_of(gpu), gpu.fgpu_parts, gpu.held_to, _("simulated") if gpu.simulated else tested


def share_row(node: str, gpus: Sequence[Gpu], tested: str) -> ShareRow:
    gpu = gpus[0]
    held = tuple(HeldRow(thing_words(what), held_mark(what in gpu.held_to)) for what in (MEMORY, SM))
    indices = ", ".join(str(one.index) for one in gpus[:16]) + ("…" if len(gpus) > 16 else "")
    return ShareRow(
        node, f"{len(gpus)} × {gpu.kind}", indices, gpu.simulated, sharing_words(sharing_of(gpu)), f"{gpu.fgpu_parts / PARTS:g}",
        held, tested,
    )  # fmt: skip


def answer(gpus: Sequence[Gpu]) -> str:
    if not gpus:
        return _("There is no GPU here.")
    held = sum(MEMORY in gpu.held_to for gpu in gpus)
    if held == len(gpus):
        return ngettext("Shares of the {count} GPU are enforced.", "Shares of all {count} GPUs are enforced.", held).format(count=held)
    if not held:
        return ngettext(
            "Shares of the {count} GPU are only accounted: nothing holds sessions to them.",
            "Shares of all {count} GPUs are only accounted: nothing holds sessions to them.", len(gpus),
        ).format(count=len(gpus))  # fmt: skip
    return _("Shares of {held} of {count} GPUs are enforced; the others are only accounted.").format(held=held, count=len(gpus))


def next_step(gpus: Sequence[Gpu], engine: str) -> str:
    if gpus and all(gpu.simulated for gpu in gpus):
        return _("They are simulated: there is nothing to test.")
    if engine == "process":
        return _("Sessions are plain processes here. In containers (--engine docker) they can be held to their shares.")
    return _("What is enforced is believed only after a self-test on that very GPU; it runs each night, or when you start it below.")


def thing_words(what: str) -> str:
    return {MEMORY: _("memory"), SM: _("multiprocessors"), "devices": _("other GPUs"), "evasion": _("evasion")}.get(what, what)


def held_mark(enforced: bool) -> Mark:
    return Mark(_("enforced"), "run") if enforced else Mark(_("only accounted"), "wait")


def sharing_words(sharing: Sharing) -> str:
    return {Sharing.MPS: _("at once, by MPS"), Sharing.TIME: _("in turns"), Sharing.MIG: _("cut by MIG")}[sharing]


def verdict_mark(verdict: Verdict) -> Mark:
    return {
        Verdict.ENFORCED: Mark(_("enforced"), "run"), Verdict.ACCOUNTED: Mark(_("only accounted"), "wait"),
        Verdict.FAILED: Mark(_("did not hold"), "bad"), Verdict.UNTRIED: Mark(_("not tried"), "end"),
    }[verdict]  # fmt: skip


def test_row(test: IsolationTest, now: datetime) -> TestRow:
    verdicts = tuple(HeldRow(thing_words(what), verdict_mark(overall(test, what))) for what in WHATS)
    tries = tuple((one.way, verdict_mark(one.verdict), one.found) for one in test.attempts)
    return TestRow(f"{test.node} {test.gpu}", ago_words(test.at, now), verdicts, tries)


def news_words(news: News) -> str:
    if isinstance(news, IsolationTest):
        return "; ".join(f"{what} {overall(news, what)}" for what in WHATS)
    return news.why if isinstance(news, NotTested) else news
