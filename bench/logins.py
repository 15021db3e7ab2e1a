"""1,000 SSH logins in the same instant from one address, then held: how long each takes, and what somebody elsewhere waits meanwhile."""
import json
import subprocess
import sys
import time
from typing import Any

from bench.figures import Figure, Report, percentile
from bench.footprint import Others, Place, a_place, back_figures, footprint, settled
from bench.server import ROOT

LOGINS, EACH = 1000, 50  # of one user, who may have a hundred
HELD_S = 15.0
CROWD = "127.7.0.1"  # the address that they come from; others come from another
LESS = {"higher_is_better": False}


def measure(*, logins: int = LOGINS, each: int = EACH, held_s: float = HELD_S) -> Report:
    with a_place() as place:
        users = [f"student{number}" for number in range(logins // each)]
        for user in users:
            place.come(user)
        fresh = footprint(place.gateway_pid)
        with crowd(place, users, each) as process:
            figures_of(process)
            leave(process)
        before = settled(place.gateway_pid, fresh)
        coming, held = Others(place.sign_in_by_ssh), Others(place.sign_in_by_ssh)
        with crowd(place, users, each) as process:
            with coming.meanwhile():
                told = figures_of(process)
            with held.meanwhile():
                time.sleep(held_s)
            leave(process)
        after = settled(place.gateway_pid, before)
    what = f"{logins} logins at once"
    return Report("logins", [
        Figure(f"{what}: refused or cut", len(told["failed"]), "logins", goal=0, note=(told["failed"] or [""])[0], **LESS),
        Figure(f"{what}: all in after", told["made_s"], "s", **LESS),
        Figure(f"{what}: one of them, median", percentile(told["taken"], 0.5), "s", **LESS),
        coming.figure(f"{what}: another signs in"),
        held.figure(f"{logins} held: another signs in"),
        *back_figures("gateway", fresh, before, after),
    ])  # fmt: skip


def crowd(place: Place, users: list[str], each: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.login_crowd", str(place.ssh_port), str(each), CROWD]
    env = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    process.stdin.write("".join(f"{user} {place.key(user)}\n" for user in users) + "\n")
    process.stdin.flush()
    return process


def leave(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(60)


def figures_of(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("the logins ended before all were in")
    return json.loads(line)  # type: ignore[no-any-return]
