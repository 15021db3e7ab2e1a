"""FakeCuda: the compiled library, made once for all runs, and the machine that programs see through it."""
import hashlib
import os
import platform
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
BUILDS = HERE.parents[1] / "build" / "fake_cuda"
LIBRARY = "libcuda.so.1"
FLAGS = (
    "-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-Wl,-Bsymbolic",
    f"-Wl,-soname,{LIBRARY}", "-ldl",
)
NEW = (f"-Wl,--version-script={HERE / 'versions.map'}",)  # its symbols have a version, so that dlvsym finds them
OLD = ("-DFAKE_CUDA_OLD",)  # a driver that lacks what came late: cuDeviceGetUuid_v2, cuGraphAddNode_v2, pools by location
MOST_CARDS = 16  # as fake_cuda.h
MOST_PROCESSES = 512
EXITING = 4  # the kernel's PF_EXITING


@dataclass(frozen=True)
class Card:
    uuid: str = "GPU-00000000-0000-0000-0000-000000000001"
    memory_bytes: int = 8 << 30


class FakeCuda:
    """Programs started with `env` see these cards. Its accounts outlive them."""

    def __init__(self, folder: Path, cards: Sequence[Card] = (Card(),), is_old: bool = False) -> None:
        self.library = built_library(is_old)
        self.cards = tuple(cards)
        self.truth = folder / "fake_cuda.truth"
        self.log_file = folder / "fake_cuda.log"

    @property
    def env(self) -> dict[str, str]:
        folders = [str(self.library.parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        cards = ",".join(f"{card.uuid}:{card.memory_bytes}" for card in self.cards)
        return {"LD_LIBRARY_PATH": ":".join(folders), "FAKE_CUDA_CARDS": cards, "FAKE_CUDA_TRUTH": str(self.truth)}

    @property
    def logged(self) -> dict[str, str]:
        return {**self.env, "FAKE_CUDA_LOG": str(self.log_file)}

    def log(self) -> list[str]:
        """A line each, without the process's number."""
        return [line.partition(" ")[2] for line in self.log_file.read_text().splitlines()] if self.log_file.exists() else []

    def now(self, card: int = 0) -> int:
        """Bytes that living processes hold of this card."""
        return sum(held[card] for _, held in self._holders())

    def peak(self, card: int = 0) -> int:
        return struct.unpack_from("<Q", self._accounts(), 8 * card)[0] if self.truth.exists() else 0

    def _accounts(self) -> bytes:
        return self.truth.read_bytes() if self.truth.exists() else b""

    def _holders(self) -> list[tuple[int, tuple[int, ...]]]:
        one = struct.Struct(f"<qq{MOST_CARDS}Q")
        accounts = self._accounts()[8 * MOST_CARDS:][: one.size * MOST_PROCESSES]
        rows = one.iter_unpack(accounts[: len(accounts) // one.size * one.size])
        return [(pid, tuple(held)) for pid, _, *held in rows if pid and _is_alive(pid)]


def _is_alive(pid: int) -> bool:
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX" and not int(rest[5]) & EXITING


def built_library(is_old: bool = False) -> Path:
    made = BUILDS / _hash(is_old) / LIBRARY
    if not made.exists():
        _build(made, is_old)
    return made


def _hash(is_old: bool) -> str:
    found = hashlib.sha256(repr((FLAGS, OLD if is_old else NEW, platform.machine(), platform.libc_ver())).encode())
    for path in sorted(HERE.glob("*.[ch]")):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def _build(made: Path, is_old: bool) -> None:
    """Under another name, then renamed: of many test processes that build at once, each finds a whole library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("the fake CUDA cannot be built: there is no C compiler (cc). apt-get install gcc libc6-dev")
    made.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(prefix=".new-", dir=made.parent)
    os.close(handle)
    sources = sorted(str(path) for path in HERE.glob("*.c"))
    done = subprocess.run([compiler, *FLAGS, *(OLD if is_old else NEW), "-o", beside, *sources], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        os.unlink(beside)
        raise RuntimeError(f"the fake CUDA cannot be built from {HERE}: {done.stderr}")
    os.chmod(beside, 0o755)
    os.replace(beside, made)
    os.symlink(LIBRARY, made.with_name(".so-link"))
    os.replace(made.with_name(".so-link"), made.with_name("libcuda.so"))  # what -lcuda finds
