"""Which shared libraries a program of this machine needs, as its own loader finds them, and where that loader is."""
import os
import re
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

from gpufairy.core.errors import EngineRefused

PROGRAM_HEADER_INTERPRETER = 3
LISTED = re.compile(r"^\s*(\S+) => (/\S.*) \(0x[0-9a-f]+\)$", re.MULTILINE)
LOADED_LATER = ("libgcc_s.so.1", "libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2")  # that libc opens by name, where they are files
NEEDED_OPTIONS = ("--argv0", "--preload", "--library-path")  # of the loader: glibc 2.33
LONGEST_LOOK_S = 30


def loader_of(program: Path) -> Path | None:
    """The interpreter that a 64-bit ELF program names; None: it is static, or no such program."""
    with open(program, "rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:5] != b"\x7fELF\x02":
            return None
        (table,) = struct.unpack_from("<Q", header, 32)
        entry_bytes, entries = struct.unpack_from("<HH", header, 54)
        for number in range(entries):
            file.seek(table + number * entry_bytes)
            kind, _, offset, _, _, size = struct.unpack("<IIQQQQ", file.read(40))
            if kind == PROGRAM_HEADER_INTERPRETER:
                file.seek(offset)
                return Path(os.fsdecode(file.read(size).rstrip(b"\0")))
    return None


def usable_loader(program: Path) -> Path:
    """Raises EngineRefused where this machine's programs cannot be started in other images by their own loader."""
    loader = loader_of(program)
    said = "" if loader is None else _run([str(loader), "--help"])
    if loader is None or not all(option in said for option in NEEDED_OPTIONS):
        raise EngineRefused(
            f"the tools for sessions cannot be made from this machine's programs: the loader of {program} is {loader}",
            "They need glibc 2.33 or newer on the machine of the server (Debian 12, Ubuntu 22.04, RHEL 9).",
        )
    return loader


def libraries_of(loader: Path, objects: Iterable[Path]) -> dict[str, Path]:
    """By the name they are looked for under. The loader lists them without running anything of the object."""
    found: dict[str, Path] = {}
    for path in objects:
        for name, library in LISTED.findall(_run([str(loader), "--list", str(path)])):
            found.setdefault(Path(name).name, Path(library))
    if (libc := found.get("libc.so.6")) is not None:
        found |= {name: libc.parent / name for name in LOADED_LATER if (libc.parent / name).exists()}
    return found


def _run(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_LOOK_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineRefused(f"{command[0]} could not be asked for the libraries of {command[-1]}: {error}") from error
