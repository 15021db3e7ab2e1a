"""Accounts add up to the ledger exactly, however they are cut: by user, team, image, kind, month, and where a price changes."""
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html.parser import HTMLParser
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOW
from gpufairy.core.account_csv import account_csv
from gpufairy.core.account_html import Sheet, account_html
from gpufairy.core.accounting import (
    AccountBy,
    AccountRow,
    Amount,
    Read,
    Stretch,
    accounts_of,
    months_of,
    part_micros_of,
    period_of,
    rows_by,
    total_of,
)
from gpufairy.core.drawn import drawn_by
from gpufairy.core.errors import BadInput
from gpufairy.core.fair_ledger import added_up
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.reading import GpuDevice, GpuReading
from gpufairy.core.session import GpuSeat, Seat
from gpufairy.core.share import PARTS
from gpufairy.core.tariff import MILLION, NO_TARIFF, Rate, Tariff
from gpufairy.core.usage import HeldSeat, within
from gpufairy.wire.tariff import RateConfig, TariffConfig

NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)
HOUR = PARTS * 3600 * MILLION

moments = st.integers(0, 40 * 86400 * MILLION).map(lambda micros: NOVEMBER - timedelta(days=5) + timedelta(microseconds=micros))
gpus = st.builds(lambda kind, parts: GpuSeat(0, "GPU-0", parts, 1, kind), st.sampled_from(["A100-40GB", "H200"]), st.integers(1, PARTS))
seats = st.builds(
    lambda who, team, gpus, times: HeldSeat(f"{who}-{team}-{times[0].second % 3}", who, Seat("gpu01", 1, 1, tuple(gpus)), *sorted(times), team),
    st.sampled_from("abc"), st.sampled_from(["x", "y", None]), st.lists(gpus, max_size=3), st.tuples(moments, moments),
)
reads = st.builds(
    Read, st.none() | st.floats(0, 1e6), st.floats(0, 1e6), st.none() | st.floats(0, 1e9), st.floats(0, 1e6),
)
changes = st.lists(st.integers(-2, 34), max_size=4, unique=True).map(sorted)


def a_tariff(days):
    return Tariff(tuple(Rate(NOVEMBER + timedelta(days=day), (number + 1) * 333_333, 120_000, {"H200": 7_777_777}) for number, day in enumerate(days)), "KRW", 0)


def cut(held, tariff, read):
    period = period_of("2026-11", NOW + timedelta(days=60))
    return [
        Stretch("2026-11", rate, within(held, begin, end), {seat.session_id: read for seat in held})
        for begin, end, rate in tariff.stretches(period.since, period.until)
    ], period


@given(st.lists(seats, max_size=12), changes, reads)
def test_sums_equal_the_ledger_exactly_however_the_month_is_cut_and_grouped(held, days, read):
    tariff = a_tariff(days)
    stretches, period = cut(held, tariff, read)
    accounts = accounts_of(stretches, {})
    ledger = sum(added_up(within(held, period.since, period.until))[0].values())
    assert total_of(accounts).held == ledger
    for by in AccountBy:
        rows = [row.amount for row in rows_by(accounts, by)]
        assert sum((row.held for row in rows), 0) == ledger
        assert sum(rows, Amount()) == total_of(accounts)
    one_stretch = accounts_of([Stretch("2026-11", None, within(held, period.since, period.until))], {})
    assert total_of(one_stretch).held == ledger


@given(st.lists(seats, min_size=1, max_size=8), reads)
def test_what_was_read_of_a_session_is_shared_out_and_nothing_of_it_lost(held, read):
    period = period_of("2026-11", NOW + timedelta(days=60))
    inside = [seat for seat in within(held, period.since, period.until) if seat.seat.gpus]
    ids = {seat.session_id for seat in inside}
    total = total_of(accounts_of([Stretch("2026-11", None, inside, dict.fromkeys(ids, read))], {}))
    if ids:
        assert total.used == (None if read.used_s is None else len(ids) * part_micros_of(read.used_s))
        assert total.energy == (None if read.energy_j is None else len(ids) * round(read.energy_j * 1000))
    assert total.cost is None
    assert total.unpriced == total.held


@given(st.lists(seats, max_size=8), changes)
def test_a_price_that_changes_within_the_month_counts_each_hour_at_its_days_rate(held, days):
    tariff = a_tariff(days)
    stretches, period = cut(held, tariff, Read())
    total = total_of(accounts_of(stretches, {}))
    exact = Decimal(0)
    for seat in within(held, period.since, period.until):
        for begin, end, rate in tariff.stretches(seat.since, seat.until):
            for gpu in seat.seat.gpus:
                price = 0 if rate is None else rate.kinds.get(gpu.kind, rate.gpu_hour)
                exact += Decimal(price) * gpu.parts * ((end - begin) // timedelta(microseconds=1)) / HOUR
    pieces = sum(len(seat.seat.gpus) for seat in held) * (len(days) + 1)
    assert abs((total.cost or 0) - exact) <= pieces  # each is rounded once, to a millionth


def a_seat(since, hours=1, kind="A100-40GB", parts=PARTS, owner="ann", team="nlp", session="s1"):
    return HeldSeat(session, owner, Seat("gpu01", 1, 1, (GpuSeat(0, "GPU-0", parts, 1, kind),)), since, since + timedelta(hours=hours), team)


def test_ten_hours_over_a_change_of_price_are_four_at_the_old_and_six_at_the_new():
    tariff = TariffConfig(currency="KRW", decimals=0, zone="Asia/Seoul", rates=[RateConfig(since="2026-11-15", gpu_hour=1000), RateConfig(since="2026-01-01", gpu_hour="500")]).to_tariff()
    midnight = datetime(2026, 11, 15, tzinfo=ZoneInfo("Asia/Seoul")).astimezone(UTC)
    held = [a_seat(midnight - timedelta(hours=4), 10)]
    assert tariff.of_seats(held) == (4 * 500 + 6 * 1000) * MILLION
    assert tariff.shown(8_000 * MILLION) == "8,000 KRW"


def test_a_kind_has_its_own_price_and_energy_is_added():
    tariff = Tariff((Rate(NOVEMBER, 1 * MILLION, 100 * MILLION, {"H200": 4 * MILLION}),))
    [stretch] = [Stretch("2026-11", rate, [a_seat(NOVEMBER, 2, "H200-141GB")], {"s1": Read(energy_j=3.6e6, energy_known_s=7200)}) for _, _, rate in tariff.stretches(NOVEMBER, NOVEMBER + timedelta(days=1))]
    total = total_of(accounts_of([stretch], {}))
    assert total.cost == (8 + 100) * MILLION
    assert total.energy_unknown == 0


def test_energy_that_was_never_metered_is_not_known_and_said():
    total = total_of(accounts_of([Stretch("2026-11", None, [a_seat(NOVEMBER, 2)])], {}))
    assert total.energy is None
    assert total.energy_unknown == total.held == total.unknown == 2 * HOUR
    page = account_html(Sheet("2026-11", "", "", [], total, 0), NO_TARIFF)
    assert "The energy of 2.00 GPU-hours was not metered." in page
    assert ",,2.000000," in account_csv([], total, AccountBy.USER, "")


def test_months_begin_by_the_clock_of_the_zone():
    seoul = ZoneInfo("Asia/Seoul")
    period = period_of("2026-11", NOW + timedelta(days=60), seoul)
    assert period.since == datetime(2026, 10, 31, 15, tzinfo=UTC)
    year = period_of("2026", NOW, seoul)
    months = months_of(year, seoul)
    assert [month.name for month in months] == [f"2026-{number:02d}" for number in range(1, 13)]
    assert (months[0].since, months[-1].until) == (year.since, year.until)
    assert all(one.until == after.since for one, after in pairwise(months))


@pytest.mark.parametrize("text", ["2026-13", "26-11", "November", "", "2999-01", "2026-11-01", "0000"])
def test_what_is_no_month_is_refused(text):
    with pytest.raises(BadInput, match="month:"):
        period_of(text, NOW)


@pytest.mark.parametrize("rates", [[{"since": "yesterday"}], [{"since": "2026-01-01", "gpu_hour": "-1"}], [{"since": "2026-01-01", "kwh": "nan"}], [{"since": "2026-01-01", "gpu_hour": 0.0000001}], [{"since": "2026-01-01"}, {"since": "2026-01-01"}]])
def test_a_tariff_that_cannot_be_is_refused_with_the_field(rates):
    with pytest.raises(BadInput, match=r"tariff\.rates"):
        TariffConfig(rates=[RateConfig(**rate) for rate in rates]).to_tariff()


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_page_to_print_fetches_nothing_and_escapes_what_strangers_wrote(language):
    nasty = "<script>alert(1)</script>"
    rows = [AccountRow(nasty, Amount(HOUR, HOUR // 2, 0, 3_600_000_000, 0, 5 * MILLION))]
    page = account_html(Sheet("2026-11", "2026-11-16 09:00 KST", nasty, [(AccountBy.USER, rows)], rows[0].amount, 2), a_tariff([1, 2]), language)
    parser = Tags()
    parser.feed(page)
    assert {tag for tag, _ in parser.tags}.isdisjoint({"script", "img", "link", "iframe"})
    assert not any(name in attrs for _, attrs in parser.tags for name in ("src", "href", "style", "onclick"))
    assert ("사용 내역" in page) == (language == "ko")
    assert "{" not in page.partition("</style>")[2]


def test_a_name_that_a_spreadsheet_would_run_is_a_text():
    text = account_csv([AccountRow("=cmd()", Amount(HOUR))], Amount(HOUR), AccountBy.USER, "")
    assert "'=cmd()" in text
    assert text.splitlines()[-1].startswith("total,1.000000")


def a_sample(at, energy_j, seconds=5.0):
    devices = (GpuDevice("GPU-0", "0", 0, "A100", None), GpuDevice("MIG-1", "0_1_0", 0, "A100", None, parent="GPU-0", profile="2g.10gb"))
    return NodeSample("gpu01", at, seconds, devices=devices, readings=(GpuReading("GPU-0", at, energy_j=energy_j), GpuReading("MIG-1", at)))


def test_energy_by_the_counter_is_shared_by_what_is_held():
    before, now = a_sample(NOW, 1000.0), a_sample(NOW + timedelta(seconds=5), 2500.0)
    assert drawn_by(now, before, {"GPU-0": 0.5}) == 150.0
    assert drawn_by(now, before, {"MIG-1": 2 / 7}) == pytest.approx(300 * 2 / 7)
    assert drawn_by(now, before, {}) == 0.0


@pytest.mark.parametrize(("before", "now"), [(None, 5.0), (5.0, None), (9.0, 5.0)])
def test_a_counter_that_is_missing_or_fell_tells_nothing(before, now):
    assert drawn_by(a_sample(NOW + timedelta(seconds=5), now), a_sample(NOW, before), {"GPU-0": 1.0}) is None
    assert drawn_by(a_sample(NOW, 5.0), None, {"GPU-0": 1.0}) is None
