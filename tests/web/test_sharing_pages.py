"""Queue, fairness and bookings: whose turn and why, who is ahead, what is booked; and what is refused is said beside the form."""
from datetime import timedelta

import pytest
from house_scene import ANN, a_house
from session_browser import a_browser

from builders import NOW, a_gpu_seat, a_node, a_seat, a_session
from gpufairy.control.registry import Caller
from gpufairy.core.booking_choice import BookingAsk
from gpufairy.core.cluster import Cluster
from gpufairy.core.fair_ledger import LedgerBy
from gpufairy.core.lifecycle import Phase
from gpufairy.core.people import Role
from gpufairy.core.quota_rules import Quota
from gpufairy.core.share import PARTS
from gpufairy.web.bookings_page import bookings_page, span_of
from gpufairy.web.fair_tree_view import fair_tree
from gpufairy.web.fairness_page import Period, fairness_page, period_of
from gpufairy.web.queue_page import ROWS, queue_page, rows_of

pytestmark = pytest.mark.slow

CALLER = Caller(ANN, "page")
ROOM = {"cpus": "0.1", "memory": "1GiB"}


def plain(words):
    return words.replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as found:
        await found.house.registry.add_user("ann", Role.USER, "nlp")
        yield found


async def a_line(scene):
    """Both GPUs are held, and two wait."""
    await scene.submit(name="holds", gpus="2", time="1h", **ROOM)
    await scene.rest()
    first = await scene.submit(name="first", gpus="1", **ROOM)
    await scene.submit(name="second", gpus="2", **ROOM)
    await scene.rest()
    return first


async def test_an_empty_line_says_so(scene):
    seen = queue_page(scene.house, CALLER, ROWS)
    assert (seen.answer.split(":")[0], seen.rows, seen.promise) == ("Nobody waits", (), "")


async def test_the_first_line_tells_my_place_and_when_it_starts(scene):
    await a_line(scene)
    seen = queue_page(scene.house, CALLER, ROWS)
    assert seen.answer.startswith("Yours is number 1 of 2, and starts at about ")
    assert [(row.place, row.name, plain(row.asks), row.mine) for row in seen.rows] == [(1, "first", "1 GPU", True), (2, "second", "2 GPUs", True)]
    assert "first: 1 GPU on here" in plain(seen.promise)
    assert seen.next_step.startswith("It starts by itself")


async def test_others_see_places_and_whose_they_are_and_no_names(scene):
    await a_line(scene)
    bob = await scene.house.registry.add_user("bob", Role.USER, None)
    seen = queue_page(scene.house, Caller(bob, "page"), 1)
    assert seen.answer.startswith("2 sessions wait; the first starts at about ")
    assert [(row.owner, row.name, row.mine) for row in seen.rows] == [("ann", "", False)]
    assert seen.more == 1
    assert "a session of ann" in seen.promise
    assert "first" not in seen.promise.replace("First in line", "")


@pytest.mark.parametrize(("text", "rows"), [("", ROWS), ("x", ROWS), ("7", 7), ("99999", ROWS), ("9999", 500), ("0", 1)])
def test_how_many_rows_are_shown_is_bounded(text, rows):
    assert rows_of(text) == rows


def test_the_tree_has_a_team_before_its_users_and_whose_turn_is_next_first():
    """ann and bob of one team hold two GPUs and one; eve, who is alone, holds one."""
    seats = {("ann", "nlp"): 2, ("bob", "nlp"): 1, ("eve", None): 1}
    holding = tuple(
        a_session("work", owner=owner, team=team, phase=Phase.RUNNING, placed_at=NOW - timedelta(days=1), seat=a_seat("here", *map(a_gpu_seat, range(gpus)), charge_parts=gpus * PARTS))
        for (owner, team), gpus in seats.items()
    )
    tree = fair_tree(Cluster((a_node(gpus=4),), holding), {"ann": "nlp", "bob": "nlp", "eve": None}, "ann", NOW)
    assert [(one.name, one.is_team, one.within, one.holds, one.mine) for one in tree] == [
        ("eve", False, False, "1.00", False), ("nlp", True, False, "3.00", True), ("bob", False, True, "1.00", False), ("ann", False, True, "2.00", True),
    ]  # fmt: skip
    eve, team, bob, ann = (plain(one.balance) for one in tree)
    assert (eve.split()[2], bob.split()[2]) == ("behind", "behind")
    assert (team, ann) == (eve.replace("behind", "ahead"), bob.replace("behind", "ahead"))


async def test_quotas_that_bind_me_are_shown_with_what_is_used(scene):
    await scene.house.quotas.set("user:ann", "*", lambda quota: Quota(quota.of, quota.gpu_kind, gpu_parts=2 * PARTS, sessions=4), scene.house.nodes)
    await a_line(scene)
    seen = queue_page(scene.house, CALLER, ROWS)
    assert [(row.what, plain(row.used), row.full) for row in seen.quotas] == [("GPUs at once", "2 of 2", True), ("sessions at once", "1 of 4", False)]


async def test_the_ledger_says_what_i_held_and_shows_my_use_to_me_alone(scene):
    await a_line(scene)
    await scene.later(timedelta(minutes=30))
    mine = await fairness_page(scene.house, ANN, Period())
    assert mine.answer == "You held 1.0 GPU-hours; 1.0 were yours by right. That is even."
    assert [(row.name, row.held, row.unknown, row.mine) for row in mine.rows] == [("ann", "1.0", "1.0", True)]
    bob = await scene.house.registry.add_user("bob", Role.USER, None)
    theirs = await fairness_page(scene.house, bob, Period(LedgerBy.USER, "1d"))
    assert theirs.answer == "You neither held nor asked for a GPU in that time."
    assert [(row.used, row.unknown) for row in theirs.rows] == [("", "")]


def test_a_period_that_is_none_is_the_usual_one():
    assert period_of("nonsense", "forever") == Period()
    assert period_of("team", "30d") == Period(LedgerBy.TEAM, "30d")


async def test_an_empty_ledger_teaches(scene):
    seen = await fairness_page(scene.house, ANN, Period())
    assert (seen.answer, seen.rows) == ("Nobody held a GPU in that time.", ())


async def test_bookings_are_drawn_where_they_lie_in_the_day(scene):
    ask = BookingAsk("CS231n", "ann", ("team:nlp",), 1, NOW + timedelta(hours=2), NOW + timedelta(hours=5), by_admin=True)
    await scene.house.bookings.make(ask, scene.house.nodes, [])
    span = span_of("2026-11-15", "day", NOW)
    seen = await bookings_page(scene.house, CALLER, span)
    (slot,) = [slot for line in seen.lines for slot in line.slots]
    assert slot.left == pytest.approx(span.place(NOW + timedelta(hours=2)))
    assert slot.width == pytest.approx(12.5)
    assert (seen.rows[0].title, seen.rows[0].who, seen.rows[0].may_cancel) == ("CS231n", "team nlp", True)
    assert seen.now == pytest.approx(span.place(NOW))


@pytest.mark.parametrize("day", ["", "yesterday", "2026-13-40", "9999-12-31", "0001-01-01", "<script>"])
@pytest.mark.parametrize("span", ["day", "week", "x"])
async def test_a_day_that_is_none_is_today_and_no_day_is_too_far(scene, day, span):
    browser = await a_browser(scene)
    assert (await browser.get(f"/bookings?day={day}&span={span}")).status == 200


async def test_a_class_is_booked_by_the_form_and_cancelled_by_its_button(scene):
    browser = await a_browser(scene)
    sent = {"title": "CS231n <b>", "gpus": "1", "from": "2026-11-17T14:00", "time": "2h", "who": "team:nlp", "key": "once"}
    done = await browser.post("/bookings", **sent)
    assert done.status == 303
    assert (await browser.post("/bookings", **sent)).headers["location"] == done.headers["location"]
    (made,) = scene.house.bookings.coming()
    assert (made.title, made.who, made.end - made.start) == ("CS231n <b>", ("team:nlp",), timedelta(hours=2))
    page = await browser.get(done.headers["location"])
    assert b"CS231n <b>" not in page.body
    assert "Booked: CS231n <b>." in page.words or "Booked: CS231n ." in page.words
    assert (await browser.post(f"/bookings/{made.id}/cancel")).status == 303
    assert scene.house.bookings.coming() == []


@pytest.mark.parametrize(("field", "typed", "said"), [
    ("gpus", "many", "is no number"), ("gpus", "99", "99 GPUs asked"), ("from", "soon", "is no time"), ("time", "long", "is no duration"),
    ("title", "", "title: ''"), ("who", "team:vision", "is not in team"), ("gpu_kind", "H200", "asked, and there are 0"),
    ("from", "2020-01-01T10:00", "ago"),
])  # fmt: skip
async def test_what_cannot_be_booked_is_said_beside_the_form_with_what_was_typed(scene, field, typed, said):
    sent = {"title": "kept as typed", "gpus": "1", "from": "2026-11-17T14:00", "time": "2h", **{field: typed}}
    browser = await a_browser(scene)
    refused = await browser.post("/bookings", **sent)
    assert refused.status >= 400
    assert said in refused.words
    assert (f'value="{typed}"' if field != "title" else 'name="title"') in refused.text or field in ("who", "gpu_kind")
    assert scene.house.bookings.coming() == []


async def test_another_site_books_and_cancels_nothing(scene):
    browser = await a_browser(scene)
    refused = await browser.post("/bookings", origin="http://evil", title="x", gpus="1", time="2h", **{"from": "2026-11-17T14:00"})
    assert refused.status == 403
    assert (await browser.post("/bookings/abc/cancel", origin="http://evil")).status == 403
    assert scene.house.bookings.coming() == []
