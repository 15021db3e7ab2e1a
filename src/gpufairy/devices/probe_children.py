"""Children of the isolation probe: each way in fresh processes, with an environment and a loader of its choosing, and a time limit."""
import contextlib
import json
import os
import selectors
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gpufairy.devices.probe_cuda import NotHere
from gpufairy.devices.probe_way import Task, summed

LIMIT_S = 60.0  # for one way; a context takes a second at most, and so does filling a GPU
GOODBYE_S = 5.0  # from the kill to the end
LARGEST_ANSWER = 64 * 2**10  # bytes
SOURCE = Path(__file__).resolve().parents[2]
RUN = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); from gpufairy.devices.probe_way import main; main()"
PRELOAD_FILE = b"/etc/ld.so.preload\0"
NO_SUCH_FILE = b"/etc/ld.so.prel0ad\0"
INTERPRETER_HEADER = 3


@dataclass(frozen=True, slots=True)
class Surroundings:
    """None: as the probe itself has it."""

    env: Mapping[str, str] | None = None
    loader: str | None = None  # that the children are started by


AS_HERE = Surroundings()


def ask(task: Task, around: Surroundings = AS_HERE, processes: int = 1, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """What the way came to. Several processes take a part each, and all hold theirs until the last has answered."""
    part = replace(task, enough_bytes=-(-task.enough_bytes // processes), hold=processes > 1)
    command = command_for(part, around.loader)
    with contextlib.ExitStack() as ended:
        children = [ended.enter_context(started(command, around.env)) for _ in range(processes)]
        until = time.monotonic() + limit_s
        answers = [answer_of(child, until, limit_s) for child in children]
    return answers[0] if processes == 1 else summed(answers)


@contextlib.contextmanager
def holding(task: Task) -> Iterator[dict[str, Any]]:
    """What it took, which it keeps until the end of this."""
    with started(command_for(replace(task, hold=True)), None) as child:
        yield answer_of(child, time.monotonic() + LIMIT_S, LIMIT_S)


def run_static(command: Sequence[str], env: Mapping[str, str] | None = None, limit_s: float = LIMIT_S) -> dict[str, Any]:
    with started(command, env) as child:
        return answer_of(child, time.monotonic() + limit_s, limit_s)


@contextlib.contextmanager
def started(command: Sequence[str], env: Mapping[str, str] | None) -> Iterator["subprocess.Popen[bytes]"]:
    """In a process group of its own, which is gone afterwards."""
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=None if env is None else dict(env), start_new_session=True)
    try:
        yield child
    finally:
        end(child)


def end(child: "subprocess.Popen[bytes]") -> None:
    """By itself if it can: a client of MPS that is killed may take others with it. One that the driver does not let go is left there."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GOODBYE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GOODBYE_S)
    if child.stderr is not None:
        child.stderr.close()


def answer_of(child: "subprocess.Popen[bytes]", until: float, limit_s: float) -> dict[str, Any]:
    assert child.stdout is not None
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while b"\n" not in said and len(said) < LARGEST_ANSWER:
            if not selector.select(max(0.0, until - time.monotonic())):
                return {"error": f"did not answer in {limit_s:g} s"}
            chunk = os.read(child.stdout.fileno(), LARGEST_ANSWER)
            if not chunk:
                break
            said += chunk
    try:
        answer = json.loads(said.partition(b"\n")[0])
    except ValueError:
        return {"error": last_words(child)}
    return answer if isinstance(answer, dict) else {"error": f"it said {said[:80]!r}"}


def last_words(child: "subprocess.Popen[bytes]") -> str:
    """Of one that has closed its output without an answer."""
    try:
        code = child.wait(GOODBYE_S)
    except subprocess.TimeoutExpired:
        return "it said nothing"
    if code < 0:
        return f"it crashed (signal {-code})"
    assert child.stderr is not None
    line = (child.stderr.read(LARGEST_ANSWER).decode(errors="replace").strip().splitlines() or ["without a word"])[-1]
    return f"it ended with {code}: {line[:200]}"


def command_for(task: Task, loader: str | None = None) -> list[str]:
    return [*python(loader), json.dumps(asdict(task))]


def python(loader: str | None) -> list[str]:
    """This interpreter, started as it was itself; or by another loader."""
    flags = ["-I"] if sys.flags.isolated else []
    if loader is None:
        return [sys.executable, *flags, "-c", RUN]
    words = Path("/proc/self/cmdline").read_bytes().decode(errors="surrogateescape").split("\0")
    by_loader = os.path.basename(os.path.realpath("/proc/self/exe")).startswith("ld")  # then our own words begin with the loader's
    before = words[1 : next(number for number, word in enumerate(words) if word in ("-I", "-c", "-m"))] if by_loader else [sys.executable]
    return [loader, *before, *flags, "-c", RUN]


def changed_loader(folder: Path) -> str:
    """A copy of the dynamic loader that looks for its list of preloaded libraries where there is none. Raises NotHere."""
    loader = own_loader()
    text = loader.read_bytes()
    if PRELOAD_FILE not in text:
        raise NotHere(f"{loader} reads no /etc/ld.so.preload")
    copy = folder / "loader"
    copy.write_bytes(text.replace(PRELOAD_FILE, NO_SUCH_FILE))
    shutil.copymode(loader, copy)
    return str(copy)


def own_loader() -> Path:
    """The one that started this interpreter. Raises NotHere."""
    own = Path("/proc/self/exe").resolve()
    return own if own.name.startswith("ld") else interpreter_of(own)


def interpreter_of(program: Path) -> Path:
    """The loader that a 64-bit ELF program names. Raises NotHere."""
    elf = program.read_bytes()
    (table,) = struct.unpack_from("<Q", elf, 32)
    entry_bytes, entries = struct.unpack_from("<HH", elf, 54)
    for number in range(entries):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", elf, table + number * entry_bytes)
        if kind == INTERPRETER_HEADER:
            return Path(os.fsdecode(elf[offset : offset + size].rstrip(b"\0"))).resolve()
    raise NotHere(f"{program} is a static program")
