"""A container's share without a container: the library built for a folder of the test, its limits and ledger there, and programs that run in it."""
import hashlib
import os
import platform
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fake_cuda import Card, FakeCuda
from gpufairy.engines.native_parts import FLAGS as OF_PRODUCT
from gpufairy.engines.native_parts import PARTS

FLAGS = (*OF_PRODUCT, "-Werror")
HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "native"
BUILDS = HERE.parents[1] / "build" / "native_share"
# Relative: each program looks in the folder that it is started in, so one build serves all tests.
PLACES = ('-DFAIRY_LIMITS="share/limits"', '-DFAIRY_LEDGER="share/ledger"')
SLOTS, GPUS = 1024, 16  # as ledger.h
LEDGER_BYTES = 4096 + 16 * GPUS * SLOTS + 4 * SLOTS
WHOLE_BYTE = 1 << 30
MIB = 1 << 20
CONTEXT_BYTES = 16 * MIB
SHARED_NAMES = re.findall(r"^    HOOK\((\w+),", (NATIVE / "share" / "names.h").read_text(), re.MULTILINE)  # every hook


class Box:
    """What a container's programs see. `limits` may be None: then nobody wrote the file."""

    def __init__(self, folder: Path, memory_bytes: int = 1024 * MIB, cards: Sequence[Card] = (Card(),), is_old: bool = False) -> None:
        self.folder = folder
        self.cuda = FakeCuda(folder, cards, is_old)
        self.limits = folder / "share" / "limits"
        self.ledger = folder / "share" / "ledger"
        self.limits.parent.mkdir()
        self.write_limits(*(gpu_line(card, memory_bytes) for card in cards))
        write_ledger(self.ledger)

    def write_limits(self, *lines: str) -> None:
        self.limits.write_text("".join(f"{line}\n" for line in ("fairyshare 1", *lines)))

    def env(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA_", "LD_"))}
        settings = {"FAKE_CUDA_CONTEXT_BYTES": str(CONTEXT_BYTES), "LD_PRELOAD": str(built("libfairyshare.so"))}
        return {**kept, **self.cuda.logged, **settings, **more}

    def client(self, way: str = "dlsym", **env: str) -> "Client":
        return Client([str(built("linked" if way == "linked" else "client")), way], self.folder, self.env(**env))

    @contextmanager
    def crowd(self, size: int, **env: str) -> Iterator[list["Client"]]:
        with ExitStack() as held:
            yield [held.enter_context(self.client(**env)) for _ in range(size)]

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=self.folder, env=self.env(**env), capture_output=True, text=True, timeout=60, check=False)

    def used(self, column: int = 0) -> int:
        """What the ledger says, dead processes included: the file as it is."""
        numbers = struct.unpack_from(f"<{GPUS * SLOTS}Q", self.ledger.read_bytes(), 4096 + 8 * GPUS * SLOTS)
        return sum(numbers[SLOTS * column : SLOTS * (column + 1)])

    def asked(self, column: int = 0) -> int:
        numbers = struct.unpack_from(f"<{GPUS * SLOTS}Q", self.ledger.read_bytes(), 4096)
        return sum(numbers[SLOTS * column : SLOTS * (column + 1)])


class Client:
    """client.c at work: an order, an answer."""

    def __init__(self, command: list[str], folder: Path, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def send(self, order: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, order: str) -> str:
        self.send(order)
        return self.hear()

    def do(self, *orders: str) -> None:
        for order in orders:
            assert (said := self.ask(order)) == "0", f"{order}: {said}"

    def info(self) -> tuple[int, int]:
        """Free and total bytes."""
        code, free, total = map(int, self.ask("info").split())
        assert code == 0
        return free, total

    def end(self) -> int:
        """As a program ends by itself."""
        _, said = self.process.communicate(timeout=30)
        assert said == "", said
        return self.process.returncode


def gpu_line(card: Card, memory_bytes: int, sm_percent: int = 50, context_bytes: int = CONTEXT_BYTES) -> str:
    return f"gpu {card.uuid} memory_bytes={memory_bytes} sm_percent={sm_percent} context_bytes={context_bytes}"


def write_ledger(path: Path, version: int = 1) -> None:
    path.write_bytes((b"fairyled" + struct.pack("<IIII", version, SLOTS, GPUS, 0)).ljust(LEDGER_BYTES, b"\0"))


PROGRAMS = {
    "libfairyshare.so": (*FLAGS, *PLACES, *PARTS["libfairyshare.so"]),
    "client": (*FLAGS, str(HERE / "client.c"), "-pthread", "-ldl"),
    "linked": (*FLAGS, "-DLINKED", str(HERE / "client.c"), "-pthread", "-ldl", "-L{cuda}", "-lcuda"),
    "next.so": (*FLAGS, "-shared", "-fPIC", str(HERE / "next.c"), "-ldl"),
    "lookups": (*FLAGS, str(HERE / "lookups.c"), "-ldl"),
    "ledger": (*FLAGS, *PLACES, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Ishare", "share/ledger.c", "share/live.c", "share/limits.c",
               "share/system.c", str(HERE / "ledger_unit.c"), "-pthread"),
    "bench": (*FLAGS, str(HERE / "bench.c"), "-ldl"),
}


def built(name: str) -> Path:
    """Compiled once for all runs, beside its place and then renamed: of many test processes that build at once, each finds a whole one."""
    command = [shutil.which("cc") or "cc", *(word.format(cuda=FakeCuda(HERE).library.parent) for word in PROGRAMS[name])]
    made = BUILDS / _hash(command) / name
    if made.exists():
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(prefix=".new-", dir=made.parent)
    os.close(handle)
    done = subprocess.run([*command, "-o", beside], cwd=NATIVE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    os.chmod(beside, 0o755)
    os.replace(beside, made)
    return made


def _hash(command: list[str]) -> str:
    found = hashlib.sha256(repr((command, platform.machine(), platform.libc_ver())).encode())
    for path in (*sorted((NATIVE / "share").glob("*.[ch]")), *sorted(HERE.glob("*.c"))):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]
