"""A class by the real server and the real command line: from a CP949 roster to its archive, and a month's accounts that equal the ledger."""
import csv
import http.client
import io
import json
import re
import tarfile
from contextlib import closing
from urllib.parse import urlencode, urlsplit

import pytest
from bench.server import LiveServer

from waits import until, wait_for_state

pytestmark = pytest.mark.slow

SETTINGS = """
[node]
cpus = 16
memory = "64GiB"
name = "box"
[tariff]
currency = "KRW"
decimals = 0
zone = "Asia/Seoul"
[[tariff.rates]]
since = "2020-01-01"
gpu_hour = 3600000
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with LiveServer(tmp_path_factory.mktemp("fairy"), SETTINGS, ("--simulate", "2xA100-40GB")) as started:
        yield started


def a_roster(live, name, text, encoding="cp949"):
    path = live.folder / name
    path.write_bytes(text.encode(encoding))
    return str(path)


def joined(link):
    """As a student does it in a browser: looks at the link, and presses the button. The cookie that the browser is given."""
    parts = urlsplit(link)
    with closing(http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)) as connection:
        connection.request("GET", f"{parts.path}?{parts.query}")
        looked = connection.getresponse()
        looked.read()
        if looked.status != 200:
            return None
        body = urlencode({"code": parts.query.removeprefix("code=")})
        headers = {"Origin": f"http://{parts.netloc}", "Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/join", body, headers)
        answer = connection.getresponse()
        answer.read()
    return re.match(r"fairy_page=[^;]+", answer.getheader("set-cookie", "")) if answer.status == 303 else None


def test_a_roster_with_faults_does_nothing_and_one_without_becomes_accounts_and_links(live):
    fairy = live.client()
    roster = a_roster(live, "students.csv", "2026-2 수강생\n학번,이름,이메일\n20231234,김철수,kim@lab.ac.kr\n20231235,이영희,\n")
    bad = a_roster(live, "bad.csv", "학번,이름\n20231234,김\n20231234,김\nno good,박\n")
    refused = live.fairy("class", "add", "cs231n", "--roster", bad, "--end", "2099-01-01")
    assert refused.returncode == 2
    made = ("class", "add", "cs231n", "--roster", roster, "--start", "in 1h", "--end", "in 90d", "--gpus", "0.5", "--quota", "gpus=2", "--each", "gpus=1,sessions=1")
    dry = live.fairy(*made, "--dry-run", "--json")
    assert [one["user"] for one in json.loads(dry.stdout)["added"]] == ["s20231234", "s20231235"]
    faulty = live.fairy("class", "add", "cs231n", "--roster", bad, "--end", "in 90d")
    assert faulty.returncode == 2
    assert "line 3: login s20231234 stands in line 2 already; line 4: login" in faulty.stderr
    assert [user["name"] for user in fairy.users() if user["team"]] == []

    assert live.fairy(*made).returncode == 0
    assert {user["name"]: user["team"] for user in fairy.users() if user["team"]} == {"s20231234": "cs231n", "s20231235": "cs231n"}
    sheet = live.folder / "links.csv"
    assert live.fairy("class", "links", "cs231n", "-o", str(sheet)).returncode == 0
    assert sheet.stat().st_mode & 0o077 == 0
    links = {row["login"]: row["link"] for row in csv.DictReader(io.StringIO(sheet.read_text("utf-8-sig")))}
    live.kill()  # a link that was printed outlives the server
    live.start()
    fairy = live.client()
    assert joined(links["s20231234"]) is not None
    assert joined(links["s20231234"]) is None


def test_a_student_starts_nothing_before_the_first_day_and_a_reset_sets_homes_aside(live):
    fairy = live.client()
    student = live.client(fairy.create_token({"user": "s20231234"})["token"])
    early = live.fairy("run", "--", "true", env={**live.env, "FAIRY_URL": live.url, "FAIRY_TOKEN": fairy.create_token({"user": "s20231234"})["token"]})
    assert (early.returncode, "class cs231n begins" in early.stderr) == (3, True)
    assert live.fairy("class", "change", "cs231n", "--start", "now").returncode == 0
    session = student.submit({"command": ["sleep", "60"]})
    assert session["request"]["gpus"] == "0.5"
    wait_for_state(student, session["name"], "RUNNING")

    home = live.data / "sessions" / "home" / "s20231234"
    (home / "work.py").write_text("x = 1")
    asked = live.fairy("class", "reset", "cs231n", "--homes", "aside", input="n\n")
    assert (asked.returncode, (home / "work.py").exists()) == (1, True)
    assert "1 session of" in live.fairy("class", "reset", "cs231n", "--homes", "aside", "--yes").stdout
    until(lambda: not (home / "work.py").exists(), "the home to be set aside")
    [kept] = (live.data / "sessions" / "home" / ".aside" / "cs231n").iterdir()
    assert (kept / "work.py").read_text() == "x = 1"


def test_a_roster_again_asks_before_it_shuts_out_and_an_archive_keeps_homes_and_hand_ins(live):
    fairy, kept = live.client(), next((live.data / "sessions" / "home" / ".aside" / "cs231n").iterdir())
    again = a_roster(live, "again.csv", "login,name\ns20231234,Kim\ns20231299,박\n", "utf-16")
    kept_all = live.fairy("class", "roster", "cs231n", "--roster", again, input="n\n")
    assert "Shut them out?" in kept_all.stderr
    assert fairy.user("s20231235")["disabled"] is False
    assert live.fairy("class", "roster", "cs231n", "--roster", again, "--yes").returncode == 0
    assert fairy.user("s20231235")["disabled"] is True

    (live.data / "handin" / "cs231n" / "s20231234" / "answer.txt").write_text("42")
    tar = live.folder / "handins.tar"
    assert live.fairy("class", "handins", "cs231n", "-o", str(tar)).returncode == 0
    with tarfile.open(tar) as found:
        assert any(member.name.endswith("s20231234/answer.txt") for member in found)

    assert live.fairy("class", "archive", "cs231n", "--yes").returncode == 0
    until(lambda: fairy.school_class("cs231n")["state"] == "archived", "the archive")
    assert fairy.user("s20231234")["disabled"] is True
    assert [team["name"] for team in fairy.teams()] == []
    until(lambda: [path.suffix for path in kept.parent.iterdir()] == [".tar"], "the home as one file")
    assert (live.data / "handin" / "cs231n" / "s20231234" / "answer.txt").stat().st_mode & 0o222 == 0
    whats = [event["what"] for event in fairy.events()]
    assert {"class_added", "class_links_made", "class_changed", "class_reset", "class_roster", "class_due", "class_archived", "home_set_aside"} <= set(whats)
    assert live.fairy("class", "remove", "cs231n").returncode == 0
    assert live.fairy("class", "show", "cs231n").returncode == 4


def test_a_month_adds_up_to_the_ledger_to_the_microsecond(live):
    fairy = live.client()
    fairy.add_user({"name": "ann", "team": "nlp"})
    ann = live.client(fairy.create_token({"user": "ann"})["token"])
    for gpus in ("0.3", "1", "0.7"):
        name = ann.submit({"command": ["true"], "gpus": gpus})["name"]
        wait_for_state(ann, name, "ENDED")
    first = json.loads(live.fairy("report", "this", "--json").stdout)
    ledger = fairy.ledger(since=first["since"])
    assert sum(row["held_part_us"] for row in ledger["items"]) == first["total"]["held_part_us"] > 0
    for by in ("user", "team", "image", "kind", "month"):
        found = fairy.accounting("this", by)
        for figure in ("held_part_us", "cost_millionths"):
            assert sum(row[figure] for row in found["items"]) == found["total"][figure] == first["total"][figure]
    # A millionth of the currency for each microsecond of a GPU, but for the rounding of each seat.
    assert abs(first["total"]["cost_millionths"] - first["total"]["held_part_us"] / 1000) <= 10 * 1000
    lines = list(csv.DictReader(io.StringIO(live.fairy("report", "this", "--csv").stdout)))
    assert sum(int(line["held_part_us"]) for line in lines[:-1]) == int(lines[-1]["held_part_us"]) == first["total"]["held_part_us"]
    page = live.folder / "november.html"
    assert live.fairy("report", "this", "--html", str(page), "--language", "ko").returncode == 0
    assert "GPU 사용 내역" in page.read_text()
    own = ann.accounting("this")
    assert (own["owner"], [row["name"] for row in own["items"]]) == ("ann", ["ann"])
    assert live.fairy("report", "1999-13").returncode == 2
    assert own["total"]["energy_kwh"] is None  # simulated GPUs have no counter
