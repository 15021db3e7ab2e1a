"""300 open pages on one server while things change: its CPU and memory; and how it takes their return after a restart."""
import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from bench.commands import cpu_s, resident_mb
from bench.figures import Figure, Report, percentile
from bench.server import ROOT, LiveServer
from bench.web_campus import Campus, Member, Size, a_campus
from bench.web_tabs import OPEN

PAGES, LASTS_S = 300, 40.0
MIX = ("/", "/session", "/cluster", "/", "/session", "/queue", "/", "/session", "/cluster", "/")  # of ten pages that are open
SETTLES_S = 5.0  # until ticks and changes have found their beat
BACK_S = 30.0  # after a restart: until every page must have found the server again
SIGN_IN_S = 0.1  # somebody asks for the sign-in page so often meanwhile
SIGN_IN_MS = 1000
WHOLE = Size()
LESS = {"higher_is_better": False}


def measure(*, pages: int = PAGES, lasts_s: float = LASTS_S, back_s: float = BACK_S, size: Size = WHOLE) -> Report:
    with a_campus(size) as campus, open_pages(campus, pages) as tabs:
        with campus.on_the_move():
            time.sleep(SETTLES_S)
            open_figures = while_open(campus, tabs, pages, lasts_s)
        return Report("web_crowd", [*open_figures, *coming_back(campus, tabs, pages, back_s)])


def while_open(campus: Campus, tabs: subprocess.Popen[str], pages: int, lasts_s: float) -> list[Figure]:
    tally_of(tabs)
    before, began = cpu_s(campus.live.pid), time.monotonic()
    time.sleep(lasts_s)
    cores, told = (cpu_s(campus.live.pid) - before) / (time.monotonic() - began), tally_of(tabs)
    looks, charts, kilobytes = (told[name] / lasts_s for name in ("looks", "charts", "received_bytes"))
    what = f"{pages} open pages, something changes each second"
    note = f"{looks:.0f} looks and {charts:.0f} charts a second, {kilobytes / 1000:.0f} kB/s"
    return [
        Figure(f"{what}: server", cores, "cores", goal=1, note=note, **LESS),
        Figure(f"{what}: memory of the server", resident_mb(campus.live.pid), "MB", **LESS),
        Figure("an open page looks again, median", 1000 * percentile(told["took_s"], 0.5), "ms", **LESS),
        Figure("an open page looks again, p95", 1000 * percentile(told["took_s"], 0.95), "ms", **LESS),
    ]


def coming_back(campus: Campus, tabs: subprocess.Popen[str], pages: int, back_s: float) -> list[Figure]:
    """The server is killed and started again under them, and somebody wants to sign in."""
    campus.agents.kill()  # they are not made to come back, as real ones are
    campus.live.kill()
    campus.live.start()
    tally_of(tabs)
    began, waits_ms = time.monotonic(), []
    while time.monotonic() - began < back_s:
        waits_ms.append(sign_in_ms(campus.live))
        time.sleep(SIGN_IN_S)
    told = tally_of(tabs)
    healed_s = sorted(told["healed_s"])
    what = f"restart under {pages} open pages"
    return [
        Figure(f"{what}: asked for the sign-in page, slowest", max(waits_ms), "ms", goal=SIGN_IN_MS, note=f"of {len(waits_ms)}", **LESS),
        Figure(f"{what}: all show what is there again after", healed_s[-1], "s", note="from the end of their streams", **LESS),
        Figure(f"{what}: pages that did not come back", pages - len(healed_s), "pages", goal=0, **LESS),
    ]


def sign_in_ms(live: LiveServer) -> float:
    began = time.perf_counter()
    with contextlib.closing(http.client.HTTPConnection(urlsplit(live.url).netloc, timeout=60)) as connection:
        connection.request("GET", "/signin")
        assert connection.getresponse().status == 200
    return 1000 * (time.perf_counter() - began)


def tally_of(tabs: subprocess.Popen[str]) -> dict[str, Any]:
    """What they did since they were last asked."""
    assert tabs.stdin is not None
    assert tabs.stdout is not None
    tabs.stdin.write("\n")
    tabs.stdin.flush()
    return json.loads(tabs.stdout.readline())  # type: ignore[no-any-return]


@contextlib.contextmanager
def open_pages(campus: Campus, pages: int) -> Iterator[subprocess.Popen[str]]:
    """In a process of its own."""
    members = [campus.members[number % len(campus.members)] for number in range(pages)]
    wanted = [{"path": path_for(member, MIX[number % len(MIX)]), "cookie": member.cookie} for number, member in enumerate(members)]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(wanted, file)
        file.flush()
        command = [sys.executable, "-m", "bench.web_tabs", campus.live.url, file.name]
        env = {**campus.live.env, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tabs:
            assert tabs.stdout is not None
            if tabs.stdout.readline().strip() != OPEN:
                raise RuntimeError(f"the pages did not open; the server says:\n{campus.live.log[-2000:]}")
            try:
                yield tabs
            finally:
                tabs.kill()


def path_for(member: Member, wanted: str) -> str:
    """Who has no session looks at the first page instead."""
    if wanted != "/session":
        return wanted
    return "/" if member.session is None else f"/sessions/{member.session}"
