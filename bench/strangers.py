"""5,000 connections that never sign in, by SSH and by HTTP, some sending a byte a second: how long they stay, what others wait."""
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from bench.figures import Figure, Report
from bench.footprint import Others, a_place, back_figures, footprint, settled
from bench.server import ROOT
from bench.stranger_crowd import ALL_THERE, Kind

STRANGERS = 5000
SSH_S, HTTP_S = 30, 15  # until they are dropped
LATE_S = 3.0  # a crowd that comes at once cannot be cut in one instant
LESS = {"higher_is_better": False}
HEAD = "POST /api/v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"


def ssh_kinds(count: int) -> list[Kind]:
    """Silent ones, ones that say their line and stop, and ones that send a byte a second, before the line's end and after it."""
    part = count // 5
    return [
        Kind("silent", count - 3 * part), Kind("stops after its line", part, "SSH-2.0-slow\r\n"),
        Kind("drips a line", part, "SSH-2.0-", "x"), Kind("drips a packet", part, "SSH-2.0-slow\r\n", "\0"),
    ]  # fmt: skip


def http_kinds(count: int) -> list[Kind]:
    part = count // 5
    return [
        Kind("silent", count - 3 * part), Kind("stops in its head", part, HEAD),
        Kind("drips a head", part, HEAD + "x-slow: ", "x"), Kind("drips a body", part, HEAD + "\r\n", "x"),
    ]  # fmt: skip


def measure(*, strangers: int = STRANGERS, ssh_s: int = SSH_S, http_s: int = HTTP_S) -> Report:
    """`ssh_s`, `http_s`: what a server that is not as shipped gives them."""
    settings = f"[limits]\nssh_login_time = '{ssh_s}s'\nrequest_time = '{http_s}s'\n" if (ssh_s, http_s) != (SSH_S, HTTP_S) else ""
    with a_place(settings) as place:
        ssh = Trial("SSH", "gateway", place.gateway_pid, place.ssh_port, ssh_kinds(strangers), place.sign_in_by_ssh, ssh_s)
        http = Trial("HTTP", "server", place.live.pid, place.live.port, http_kinds(strangers), place.sign_in_by_http, http_s)
        return Report("strangers", [*tried(ssh, strangers), *tried(http, strangers)])


@dataclass(frozen=True, slots=True)
class Trial:
    by: str
    who: str
    pid: int
    port: int
    kinds: list[Kind]
    sign_in: Callable[[], float]
    dropped_s: int


def tried(trial: Trial, strangers: int) -> list[Figure]:
    fresh, others = footprint(trial.pid), Others(trial.sign_in)
    with others.meanwhile():
        crowd(trial.port, trial.kinds)
        before = settled(trial.pid, fresh)
        stayed = crowd(trial.port, trial.kinds)
    after = settled(trial.pid, before)
    what = f"{strangers} by {trial.by}"
    return [
        others.figure(f"{what}: another signs in"),
        *stayed_figures(what, stayed, strangers, trial.dropped_s),
        *back_figures(trial.who, fresh, before, after),
    ]


def stayed_figures(what: str, stayed: dict[str, tuple[float, float, int]], strangers: int, goal_s: float) -> list[Figure]:
    gone = sum(count for _, _, count in stayed.values())
    longest, kind = max((longest, name) for name, (_, longest, _) in stayed.items())
    return [
        Figure(f"{what}: the last is dropped after", longest, "s", goal=goal_s + LATE_S, note=kind, **LESS),
        Figure(f"{what}: not dropped", strangers - gone, "connections", goal=0, **LESS),
    ]


def crowd(port: int, kinds: list[Kind]) -> dict[str, tuple[float, float, int]]:
    """How long they stayed, by kind: shortest, longest, how many."""
    with coming(port, kinds) as process:
        assert process.stdout is not None
        if process.stdout.readline().strip() != ALL_THERE:
            raise RuntimeError("the strangers did not come")
        return {name: tuple(found) for name, found in json.loads(process.stdout.readline()).items()}  # type: ignore[misc]


@contextlib.contextmanager
def coming(port: int, kinds: list[Kind]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.stranger_crowd", str(port), json.dumps([asdict(kind) for kind in kinds])]
    env = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
