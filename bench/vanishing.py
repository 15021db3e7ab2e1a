"""2,000 browsers with an open page that vanish: half are killed, half are cut off without a goodbye; what is left of them, and when."""
import contextlib
import http.client
import re
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.figures import Figure, Report
from bench.footprint import Others, Place, a_place, back_figures, footprint, settled
from bench.page_crowd import ALL_THERE
from bench.server import ROOT
from bench.web_campus import cookie_of, token_of

PAGES, USERS = 2000, 20
KILLED, CUT_OFF = "127.8.0.1", "127.9.0.1"  # the addresses that they come from: a firewall tells them apart
GONE_S, GIVEN_UP_S = 5.0, 120.0
TABLE = "fairy_bench_vanish"
LESS = {"higher_is_better": False}


def measure(*, pages: int = PAGES, cut_off: bool = True) -> Report:
    with a_place() as place:
        cookies = cookies_of(place)
        fresh, others = footprint(place.live.pid), Others(place.sign_in_by_http)
        with listening(place, KILLED, pages, cookies):
            pass
        gone(place, GONE_S)
        before = settled(place.live.pid, fresh)
        with others.meanwhile():
            figures = vanish(place, pages, cookies, cut_off=cut_off)
        after = settled(place.live.pid, before)
    other = others.figure(f"{pages} open pages come and vanish: another signs in")
    return Report("vanishing", [other, *figures, *back_figures("server", fresh, before, after)])


def vanish(place: Place, pages: int, cookies: list[str], *, cut_off: bool) -> list[Figure]:
    kinds = ((KILLED, pages // 2), (CUT_OFF, pages - pages // 2)) if cut_off else ((KILLED, pages),)
    with contextlib.ExitStack() as stack:
        crowds = {source: stack.enter_context(listening(place, source, count, cookies)) for source, count in kinds}
        there = open_streams(place)
        crowds[KILLED].kill()
        gone_s = gone(place, GONE_S, left=pages - dict(kinds)[KILLED])
        figures = [
            Figure("pages that were open at once", there, "pages", goal=pages),
            Figure("killed browsers: their streams are closed after", gone_s, "s", goal=GONE_S, **LESS),
        ]
        if cut_off:
            with firewall(CUT_OFF):
                crowds[CUT_OFF].kill()
                given_up_s = gone(place, GIVEN_UP_S)
            figures.append(Figure("browsers cut off: given up after", given_up_s, "s", goal=GIVEN_UP_S, **LESS))
    return figures


def cookies_of(place: Place) -> list[str]:
    with place.live.client() as admin:
        return [cookie_of(place.live.client(token_of(admin, f"reader{number}"))) for number in range(USERS)]


@contextlib.contextmanager
def listening(place: Place, source: str, count: int, cookies: list[str]) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "bench.page_crowd", str(place.live.port), source, str(count)]
    env = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n".join(cookies) + "\n")
            process.stdin.close()
            if process.stdout.readline().strip() != ALL_THERE:
                raise RuntimeError(f"the pages did not open; the server says:\n{place.live.log[-2000:]}")
            yield process
        finally:
            process.kill()


def gone(place: Place, limit_s: float, left: int = 0) -> float:
    """Seconds until no more streams than that are open; a little more than the limit if they stay."""
    began = time.monotonic()
    while open_streams(place) > left and time.monotonic() - began < limit_s * 1.2:
        time.sleep(0.1)
    return time.monotonic() - began


def open_streams(place: Place) -> int:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", place.live.port, timeout=60)) as connection:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    return int(re.search(r"^fairy_open_streams (\d+)$", text, re.MULTILINE)[1])  # type: ignore[index]


@contextlib.contextmanager
def firewall(source: str) -> Iterator[None]:
    """Nothing comes from there, and nothing gets there: a cable that is pulled."""
    drop = f"ip saddr {source} drop; ip daddr {source} drop"
    rules = f"table inet {TABLE} {{\n chain out {{\n type filter hook output priority 0; {drop};\n }}\n}}\n"
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)
    try:
        yield
    finally:
        subprocess.run(["nft", "delete", "table", "inet", TABLE], check=True)
