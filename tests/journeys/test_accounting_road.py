"""A month in figures: what two people of two teams held, by the command, as CSV, JSON, a page to print and in the browser's own; sums are the ledger's."""
import contextlib
import csv
import io
import sqlite3
from datetime import UTC, datetime

import pytest
from bench.server import LiveServer

from raw_http import ask
from waits import wait_for_state

pytestmark = pytest.mark.slow

SETTINGS = """
[node]
name = 'box'
cpus = 16
[tariff]
currency = "EUR"
[[tariff.rates]]
since = "2026-01-01"
gpu_hour = 3600
kwh = 0.3
"""
ROUNDED_S = 0.002  # millionths of an hour are shown
PARTS = 1_000_000  # of a GPU, as holds are written
HELD = {"ann": ("0.5", "1.5"), "bob": ("0.25", "1")}  # how much, and for how many seconds


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with LiveServer(tmp_path_factory.mktemp("fairy"), SETTINGS, ("--simulate", "2xA100-40GB")) as server:
        admin = server.client()
        for name, (gpus, seconds) in HELD.items():
            assert server.fairy("team", "add", f"team-{name}").returncode == 0
            admin.add_user({"name": name, "team": f"team-{name}"})
            user = server.client(admin.create_token({"user": name})["token"])
            user.submit({"name": "work", "gpus": gpus, "command": ["sleep", seconds]})
            wait_for_state(user, "work", "ENDED")
            server.users = {**getattr(server, "users", {}), name: user}
        yield server


def ledger(live) -> dict[str, float]:
    """GPU-seconds of each, by the table itself."""
    with contextlib.closing(sqlite3.connect(f"file:{live.data / 'fairy.db'}?mode=ro", uri=True)) as database:
        rows = database.execute("select owner, sum(gpu_parts * (until - since)) from holds group by owner").fetchall()
    return {owner: held / PARTS / 1e6 for owner, held in rows if held}


def test_the_sums_are_those_of_the_ledger_and_cost_by_the_tariff(live):
    answer = live.client().accounting("this", "user")
    held = {item["name"]: item["held_gpu_hours"] * 3600 for item in answer["items"]}
    truth = ledger(live)
    assert held == pytest.approx(truth, abs=ROUNDED_S)
    assert answer["total"]["held_gpu_hours"] * 3600 == pytest.approx(sum(truth.values()), abs=ROUNDED_S)
    assert 0.7 < truth["ann"] < 5
    assert answer["total"]["cost"] == pytest.approx(sum(truth.values()), rel=0.05)  # one EUR for a GPU's second, and a little for energy where it is known


def test_by_team_image_kind_and_month_the_total_is_the_same(live):
    client = live.client()
    totals = {by: client.accounting("this", by)["total"]["held_gpu_hours"] for by in ("user", "team", "image", "kind", "month")}
    assert len(set(totals.values())) == 1, totals
    teams = {item["name"] for item in client.accounting("this", "team")["items"]}
    assert teams == {"team-ann", "team-bob"}


def test_the_command_prints_a_table_csv_and_a_page_to_print(live, tmp_path):
    table = live.fairy("report", "this")
    assert (table.returncode, "ann" in table.stdout, "COST EUR" in table.stdout) == (0, True, True), table.stderr
    rows = list(csv.reader(io.StringIO(live.fairy("report", "this", "--by", "team", "--csv").stdout)))
    assert {row[0] for row in rows[1:]} >= {"team-ann", "team-bob", "total"}
    for language, word in (("en", "GPU-hours"), ("ko", "GPU 시간")):
        page = tmp_path / f"month.{language}.html"
        done = live.fairy("report", f"{datetime.now(UTC):%Y-%m}", "--html", str(page), "--language", language)
        assert done.returncode == 0, done.stderr
        text = page.read_text()
        assert word in text.replace("&nbsp;", " "), text[:500]
        assert "<script" not in text


def test_a_user_sees_their_own_alone_and_a_month_that_is_none_is_told(live):
    own = live.users["bob"].accounting("this", "user")
    assert [item["name"] for item in own["items"]] == ["bob"]
    told = ask(live.url, "GET", "/api/v1/accounting?month=2026-13", token=live.token)
    assert (told.status, "2026-13" in told.json["detail"]) == (400, True), told.body
