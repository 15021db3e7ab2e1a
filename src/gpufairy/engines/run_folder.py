"""Folders of the process engine, and the few files that are a workload's label, claim and end. They are the truth; nothing is remembered.

run/ID.ATTEMPT/ holds session.json (the label), token, claim, exit, stopped; logs/, results/ and home/ outlive it.
"""
import contextlib
import json
import os
import shutil
import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

from gpufairy.core import failpoints
from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput, EngineRefused
from gpufairy.core.plain import session_from_plain, session_to_plain
from gpufairy.core.session import Session
from gpufairy.core.workload import WorkloadId
from gpufairy.engines.contract import Credentials
from gpufairy.engines.proc import parse_stat

VOID = b"void\n"
PRIVATE = 0o600
FILES = ("session.json", "token", "claim", "exit", "stopped")  # all that a run folder may hold
LARGEST_LABEL = 8 * 2**20  # bytes: more than a command line can be
COULD_NOT_RUN = {126: "its work folder or its command could not be entered", 127: "its command was not found"}
SIGNAL_NAMES = {number.value: number.name for number in signal.Signals}


@dataclass(frozen=True, slots=True)
class Claim:
    """Which process is the shim: written by itself, before it runs anything."""

    boot: str
    pid: int
    start_ticks: int
    at: datetime


class NoClaim(Enum):
    NOBODY = "nobody"  # nothing was run yet, and whoever creates the file decides whether it will be
    UNFINISHED = "unfinished"  # a shim is writing it, or died there
    VOID = "void"  # a server took it: this run shall never begin


class Places:
    def __init__(self, root: Path, homes: Path | None = None) -> None:
        self.root = root
        self.runs, self.logs, self.all_results = (root / name for name in ("run", "logs", "results"))
        self.homes = homes or root / "home"

    def run(self, name: str) -> Path:
        return self.runs / one_part(name)

    def log(self, name: str) -> Path:
        return self.logs / (one_part(name) + ".log")

    def results(self, name: str) -> Path:
        return self.all_results / one_part(name)

    def home(self, owner: str) -> Path:
        return self.homes / one_part(owner)

    def make(self) -> None:
        for folder in (self.runs, self.logs, self.all_results, self.homes):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def one_part(name: str) -> str:
    """A name that is one part of a path. Names are checked where they come in; here once more, for `../` would be another user's folder."""
    if not name or name.startswith(".") or "/" in name or "\0" in name:
        raise EngineRefused(f"{shown(name)} cannot be the name of a folder", "Rename the user or session.")
    return name


def workload_id_of(name: str) -> WorkloadId | None:
    session_id, _, attempt = name.rpartition(".")
    return WorkloadId(session_id, int(attempt)) if session_id and attempt.isdecimal() else None


def write_label(run: Path, session: Session, credentials: Credentials) -> None:
    run.mkdir(mode=0o700)
    write_private(run / "session.json", json.dumps({**session_to_plain(session), "url": credentials.url}))
    write_private(run / "token", credentials.token)


def read_label(run: Path) -> Session | None:
    """None: unreadable, after a power cut for example. What runs there is shown all the same."""
    try:
        with open(run / "session.json", "rb") as file:
            return session_from_plain(json.loads(file.read(LARGEST_LABEL)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, BadInput):
        return None


def read_url(run: Path) -> str:
    try:
        return str(json.loads((run / "session.json").read_bytes())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def write_private(path: Path, text: str) -> None:
    rest = memoryview(text.encode())
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)


def read_claim(run: Path) -> Claim | NoClaim:
    try:
        with open(run / "claim", "rb") as file:
            text, at = file.read(4096), os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return NoClaim.NOBODY
    if text == VOID:
        return NoClaim.VOID
    boot, _, line = text.partition(b"\n")
    stat = parse_stat(line) if line.endswith(b"\n") else None
    if stat is None:
        return NoClaim.UNFINISHED
    return Claim(boot.decode("ascii", "replace"), stat.pid, stat.start_ticks, datetime.fromtimestamp(at, UTC))


def take_claim(run: Path) -> bool:
    """Whether we were first: if so, no shim will ever run anything for this folder."""
    try:
        descriptor = os.open(run / "claim", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
    except (FileExistsError, FileNotFoundError):
        return False
    try:
        os.write(descriptor, VOID)
    finally:
        os.close(descriptor)
    return True


def remove_run(run: Path) -> None:
    """Renamed first: half a removed folder must never look like one that has not begun."""
    away = run.with_name(f".{run.name}.void")
    try:
        run.rename(away)
    except FileNotFoundError:
        return
    except OSError:  # one of the same name was left half removed
        shutil.rmtree(away, ignore_errors=True)
        run.rename(away)
    failpoints.passing("after_run_renamed_before_removed")
    for name in FILES:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(away / name)
    try:
        os.rmdir(away)
    except OSError:  # something that is not ours lies in it
        shutil.rmtree(away, ignore_errors=True)


def remove_half_removed(runs: Path) -> None:
    for path in runs.iterdir():
        if path.name.startswith("."):
            shutil.rmtree(path, ignore_errors=True)


def forget_old(places: Places, before_s: float, kept: set[str]) -> int:
    """Logs last written before that time, with the results beside them. Run folders are not touched: what is listed is not old."""
    forgotten = 0
    for log in places.logs.glob("[!.]*.log"):
        name = log.name.removesuffix(".log")
        if name not in kept and not places.run(name).exists() and log.lstat().st_mtime < before_s:
            shutil.rmtree(places.results(name), ignore_errors=True)
            log.unlink(missing_ok=True)
            forgotten += 1
    return forgotten


def read_exit(run: Path) -> int | None:
    """None: no exit code was written, or half of one."""
    try:
        with open(run / "exit", "rb") as file:
            text = file.read(8)
    except FileNotFoundError:
        return None
    code = int(text) if text.endswith(b"\n") and text.strip().isdigit() else None
    return code if code is not None and code <= 255 else None


def mark_stopped(run: Path) -> None:
    """Before the first signal, so that the reason for its death is known after a restart too."""
    (run / "stopped").touch(mode=PRIVATE)


def why_over(run: Path, claim: Claim | NoClaim, boot: str) -> str:
    """In words, what is known of the end beside its exit code."""
    code, stopped = read_exit(run), (run / "stopped").exists()
    if stopped:
        return "ended by the engine, which was told to stop it"
    if isinstance(claim, NoClaim):
        return "it never began: its first process died before it could write its claim (is the disk full?)"
    if code in COULD_NOT_RUN:
        return f"exit code {code}: {COULD_NOT_RUN[code]}; its log says more"
    if code is not None:
        return f"exit code {code}: ended by {SIGNAL_NAMES[code - 128]}" if code - 128 in SIGNAL_NAMES else ""
    if (run / "exit").exists():
        return "it ended, and its exit code could not be written (is the disk full?)"
    if claim.boot != boot:
        return "the machine restarted while it ran"
    return "its process vanished without an exit code: killed from outside, or the machine restarted"
