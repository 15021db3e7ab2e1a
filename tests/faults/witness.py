"""An independent reader: its own SQL on the database, the container engine's and the cluster's own answers, /proc, and what the workloads
themselves wrote down. Nothing of the product is asked, but for what it says is free, which must agree with all that.
"""
import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lengths import length_s
from witness_tables import Rows, Tables

from waits import until

# What a session of these tests runs. The lock is the kernel's: it is held as long as any process of the session lives, and by nobody else.
WORK = """\
w=$HOME/witness; mkdir -p $w
exec 9>>$w/lock.$FAIRY_SESSION_ID
if command -v flock >/dev/null; then flock -n 9; else /opt/fairy/bin/python3 -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)'; fi || echo $FAIRY_SESSION_ID >> $w/twice
read -r up rest < /proc/uptime; echo "began $FAIRY_SESSION_ID $up $$" >> $w/journal
{then}
read -r up rest < /proc/uptime; echo "ended $FAIRY_SESSION_ID $up $$" >> $w/journal
"""
HOLDING = ("placed", "starting", "running", "stopping", "lost")
WHOLE_GPU = 1_000_000  # parts, as the seats are written
LATE_S = length_s(short=15, full=1)  # one second is promised; a machine that is busy with other tests notices later
GRACE_S = 20.0  # for the server to bring things together

Ids = Callable[[], Counter[str]]  # which sessions run, and how often, as the engine itself says


def work(then: str) -> list[str]:
    return ["sh", "-c", WORK.format(then=then)]


@dataclass(frozen=True, slots=True)
class Ran:
    session_id: str
    began_s: float  # of the machine's uptime
    ended_s: float | None
    pid: int


@dataclass(slots=True)
class Witness:
    data: Path
    running: Ids
    tables: Tables
    homes: list[Path] = field(default_factory=list)  # beside those in the data folder
    late_s: float = LATE_S
    away: list[tuple[float, float]] = field(default_factory=list)  # uptimes between which no server was there
    _ended: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    _counted: set[str] = field(default_factory=set)  # whose seconds were looked at

    def forget(self) -> None:
        """The database is another one from now on."""
        self._ended.clear()

    def rows(self, query: str, *values: object) -> Rows:
        return self.tables.rows(query, *values)

    def folders(self) -> list[Path]:
        return [path for home in [self.data / "sessions" / "home", *self.homes] for path in home.glob("**/witness")]

    def ran(self, session_id: str) -> list[Ran]:
        """Each time that it began, in its own words."""
        found: list[Ran] = []
        for folder in self.folders():
            lines = [line.split() for line in (folder / "journal").read_text().splitlines()] if (folder / "journal").exists() else []
            ends = {(one, pid): float(at) for what, one, at, pid in lines if what == "ended"}
            found += [Ran(one, float(at), ends.get((one, pid)), int(pid)) for what, one, at, pid in lines if what == "began" and one == session_id]
        return found

    def lives(self, session_id: str) -> bool:
        """By the lock that it took, as the kernel lists it: to try it would be to hold it, at the very moment when it may be wanted."""
        held = Path("/proc/locks").read_text()
        for folder in self.folders():
            with contextlib.suppress(FileNotFoundError):
                found = (folder / f"lock.{session_id}").stat()
                if f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino} " in held:
                    return True
        return False

    def check(self, client: Any = None) -> None:
        """All invariants, once what is under way has come to rest."""
        until(self.at_rest, lambda: f"what runs to be what is written: {self.difference()}", GRACE_S)
        self.check_files()
        self.check_seats()
        self.check_runs()
        self.check_ledger()
        if client is not None:
            self.check_free(client)

    def at_rest(self) -> bool:
        return not self.difference()

    def difference(self) -> str:
        written = {one for (one,) in self.rows("select id from sessions where phase in ('running', 'stopping', 'lost')")}
        begun = {one for (one,) in self.rows("select id from sessions where phase = 'starting'")}
        runs = self.running()
        if doubled := [one for one, count in runs.items() if count > 1]:
            return f"{doubled} run more than once"
        if unknown := runs.keys() - written - begun:
            return f"{unknown} run, and are not written as running"
        return f"{missing} are written as running, and do not" if (missing := written - runs.keys()) else ""

    def check_files(self) -> None:
        self.tables.check()
        names = self.rows("select owner, name, count(*) from sessions where phase <> 'ended' group by owner, name having count(*) > 1")
        assert names == [], f"two sessions of one name: {names}"
        ended = {row[0]: row for row in self.rows("select * from sessions where phase = 'ended'")}
        changed = [one for one, row in self._ended.items() if ended.get(one) != row]
        assert changed == [], f"ended sessions changed: {changed}"
        self._ended = ended

    def check_seats(self) -> None:
        for gpu, parts in self.held_parts().items():
            assert parts <= WHOLE_GPU, f"{gpu} is given away {parts / WHOLE_GPU} times"
        places = Counter((gpu["uuid"], gpu["start"]) for seat in self.seats() for gpu in seat["gpus"] if gpu.get("start") is not None)
        assert not [place for place, count in places.items() if count > 1], f"one MIG instance was given to two: {places}"

    def seats(self) -> list[dict[str, Any]]:
        marks = ", ".join("?" * len(HOLDING))
        return [json.loads(seat) for (seat,) in self.rows(f"select seat from sessions where phase in ({marks}) and seat is not null", *HOLDING)]

    def held_parts(self) -> Counter[str]:
        held: Counter[str] = Counter()
        for seat in self.seats():
            for gpu in seat["gpus"]:
                held[gpu["uuid"]] += gpu["parts"]
        return held

    def check_runs(self) -> None:
        """Nothing at the same time twice, and no attempt more than once."""
        for folder in self.folders():
            assert not (folder / "twice").exists(), f"at the same time twice: {(folder / 'twice').read_text()}"
        for session_id, attempt, phase in self.rows("select id, attempt, phase from sessions"):
            assert len(self.ran(session_id)) <= attempt, f"{session_id} began {len(self.ran(session_id))} times in {attempt} attempts"
            assert phase != "ended" or not self.lives(session_id), f"{session_id} is over, and lives"

    def check_ledger(self) -> None:
        """A seat is held from before its session begins until it has ended and a server was there to see it."""
        boot = time.time() - uptime_s()
        for session_id, attempt in self.rows("select id, attempt from sessions where phase = 'ended'"):
            if session_id in self._counted:
                continue
            self._counted.add(session_id)
            held = self.rows("select since, until from holds where session_id = ? order by number", session_id)
            assert all(since <= until for since, until in held), f"negative seconds of {session_id}: {held}"
            assert all(held[place][1] <= held[place + 1][0] for place in range(len(held) - 1)), f"counted twice: {held}"
            ran = self.ran(session_id)
            if len(ran) == len(held) == attempt == 1 and ran[0].ended_s is not None:
                since_s, until_s = (micros / 1e6 - boot for micros in held[0])
                assert since_s <= ran[0].began_s + 0.1, f"{session_id} began before its seat did"
                assert until_s >= ran[0].ended_s - 0.1, f"{session_id} ran on after its seat was given back"
                late_s = self.watched_s(ran[0].ended_s, until_s)
                assert late_s < self.late_s, f"{session_id} held its seat for {late_s:.1f} s after it had ended"

    def watched_s(self, since_s: float, until_s: float) -> float:
        return until_s - since_s - sum(max(0.0, min(until_s, back) - max(since_s, left)) for left, back in self.away)

    def check_free(self, client: Any) -> None:
        held = self.held_parts()
        for gpu in client.gpus():
            if gpu.get("free_share") is not None and not gpu.get("mig"):
                assert abs(gpu["free_share"] + held[gpu["uuid"]] / WHOLE_GPU - 1) < 1e-6, f"{gpu['uuid']}: {gpu['free_share']} free, {held}"
        [node] = client.nodes()
        held_cpus = sum(seat["cpus_milli"] for seat in self.seats()) / 1000
        assert abs(node["free"]["cpus"] + held_cpus - node["cpus"]) < 1e-6, f"{node['free']} free of {node['cpus']} CPUs, {held_cpus} held"


def uptime_s() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


def processes_of(data: Path) -> Ids:
    """Sessions as processes: told by the environment that each was started with. One counts once, however many processes it is."""
    mine = f"HOME={data / 'sessions' / 'home'}/".encode()

    def look() -> Counter[str]:
        shells: Counter[str] = Counter()
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, StopIteration):
                env = (path / "environ").read_bytes().split(b"\0")
                if any(line.startswith(mine) for line in env) and is_leader(path):
                    shells[next(line[17:].decode() for line in env if line.startswith(b"FAIRY_SESSION_ID="))] += 1
        return shells

    return look


def is_leader(path: Path) -> bool:
    """The first of its session in the kernel's sense: the shim, of which each attempt has one."""
    stat = (path / "stat").read_text().rpartition(")")[2].split()
    return stat[0] not in "ZX" and stat[3] == path.name


def containers_of(daemon: Any, server_id: Callable[[], str]) -> Ids:
    def look() -> Counter[str]:
        listed = daemon.containers(**{"gpufairy.server": server_id(), "gpufairy.role": "session"})
        return Counter(one["Labels"]["gpufairy.session"] for one in listed if one["State"] == "running")

    return look


def pods_of(cluster: Any, namespace: str) -> Ids:
    def look() -> Counter[str]:
        pods = cluster.ask("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        alive = [pod for pod in pods if pod["status"].get("phase") == "Running" and is_session(pod)]
        return Counter(pod["metadata"]["labels"]["gpufairy.io/session"] for pod in alive)

    return look


def is_session(pod: dict[str, Any]) -> bool:
    return "gpufairy.io/session" in (pod["metadata"].get("labels") or {})
