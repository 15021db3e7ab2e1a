"""FakeNvml: the compiled library, made once for all runs, and the script file that it reads."""
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

from fake_nvml.machine import FakeMachine

HERE = Path(__file__).parent
BUILDS = HERE.parents[1] / "build" / "fake_nvml"
LIBRARY = "libnvidia-ml.so.1"
FLAGS = (
    "-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", f"-Wl,-soname,{LIBRARY}",
)


class FakeNvml:
    """Programs started with `env` see the machine written last. Before the first write there is no driver."""

    def __init__(self, folder: Path) -> None:
        self.library = built_library()
        self.script = folder / "fake_nvml.script"

    @property
    def env(self) -> dict[str, str]:
        folders = [str(self.library.parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        return {"LD_LIBRARY_PATH": ":".join(folders), "FAIRY_FAKE_NVML": str(self.script)}

    def write(self, machine: FakeMachine, *, keep_cut: bool = False) -> None:
        """`keep_cut`: GPUs that were cut through the library stay so; what the machine says of instances is for those that are still there."""
        if not keep_cut:
            self.script.with_name(self.script.name + ".cut").unlink(missing_ok=True)
        beside = self.script.with_suffix(".new")
        beside.write_text(machine.script())
        beside.chmod(0o644)  # readers may run under another account
        # Two scripts of one length, written in one tick of the kernel's clock, would look the same to the library.
        now_ns = time.time_ns()
        os.utime(beside, ns=(now_ns, now_ns))
        beside.replace(self.script)

    def calls(self) -> Counter[str]:
        """By function, since this was asked before, while a machine that `counts_calls` was shown."""
        counted = self.script.with_name(self.script.name + ".calls")
        seen = Counter(counted.read_text().split()) if counted.exists() else Counter()
        counted.write_text("")
        return seen


def built_library() -> Path:
    made = BUILDS / _hash() / LIBRARY
    if not made.exists():
        _build(made)
    return made


def _hash() -> str:
    found = hashlib.sha256(repr((FLAGS, platform.machine(), platform.libc_ver())).encode())
    for path in sorted(HERE.glob("*.[ch]")):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def _build(made: Path) -> None:
    """Under another name, then renamed: of many test processes that build at once, each finds a whole library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("the fake NVML cannot be built: there is no C compiler (cc). apt-get install gcc libc6-dev")
    made.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(prefix=".new-", dir=made.parent)
    os.close(handle)
    sources = sorted(str(path) for path in HERE.glob("*.c"))
    done = subprocess.run([compiler, *FLAGS, "-o", beside, *sources], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        os.unlink(beside)
        raise RuntimeError(f"the fake NVML cannot be built from {HERE}: {done.stderr}")
    os.chmod(beside, 0o755)
    os.replace(beside, made)
