"""What the native parts are made of: sources, the compiler's arguments for each kind of machine, and a hash over all of it.

Nothing is compiled here. Also used when a wheel is made, where no other package is installed: the standard library is enough.
"""
import hashlib
import platform
from pathlib import Path

Arguments = tuple[str, ...]  # of the compiler

# No -Werror: a newer compiler than ours knows more warnings, and nobody's server must fail to start for one. Tests add it.
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra")
SHARE_PARTS = (
    "address", "arrays", "contexts", "dlsym", "graphs", "ledger", "limits", "live", "loaded", "memory", "mps", "physical", "pools",
    "process", "resolve", "show", "system",
)
DISK_WALK = "disk-walk"


def share_flags(machine: str) -> Arguments:
    """Loaded into every program of every image: nothing in it may ask for a symbol of a newer libc, or of any."""
    return (
        "-shared", "-fPIC", "-nostdlib", "-ffreestanding", "-fvisibility=hidden", "-fno-stack-protector", "-U_FORTIFY_SOURCE",
        "-Wl,-Bsymbolic", "-Wl,-z,relro", "-Wl,-soname,libfairyshare.so",
        *(("-mno-outline-atomics",) if machine == "aarch64" else ()),
    )  # fmt: skip


def parts_for(machine: str) -> dict[str, Arguments]:
    """By name; `machine` as `uname -m` has it."""
    return {
        "porter": ("-static", "porter.c", "door.c", "request.c", "child.c", "once.c", "relay.c", "path.c"),
        "step": ("-static", "step.c", "path.c"),
        "launcher": ("-static", "launcher.c"),
        "fairy-user.so": ("-shared", "-fPIC", "user.c"),
        "libfairyshare.so": (*share_flags(machine), *(f"share/{part}.c" for part in SHARE_PARTS)),
        "probe-static": ("-static", "probe_static.c"),
        DISK_WALK: ("-static", *(f"disk/{part}.c" for part in ("walk", "sums", "kept"))),
    }


PARTS = parts_for(platform.machine())


def hash_of(sources: Path, machine: str) -> str:
    found = hashlib.sha256(repr((FLAGS, parts_for(machine), machine)).encode())
    for path in sorted(sources.rglob("*.[ch]")):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]
