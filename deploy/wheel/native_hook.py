"""Puts native parts into the wheel, ready for each kind of machine that a compiler is found for here; where none is, they are
compiled in the field. The wheel stays `py3-none-any`: it works without them too, and they need no Python and no C library of the host's.
"""
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))

from gpufairy.core.errors import EngineRefused  # noqa: E402
from gpufairy.engines.build_native import compile_into  # noqa: E402
from gpufairy.engines.native_parts import hash_of, parts_for  # noqa: E402
from gpufairy.engines.native_shipped import NOTE, write_note  # noqa: E402

MACHINES = ("x86_64", "aarch64")


class NativeParts(BuildHookInterface):
    """`editable`: what is installed from a clone for work on it finds the clone's own sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="gpufairy-native-")
        for machine in MACHINES if version != "editable" else ():
            for path in made_for(machine, Path(self._scratch.name), self.app.display_warning):
                build_data["force_include"][str(path)] = f"gpufairy/native_bin/{machine}/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._scratch.cleanup()


def made_for(machine: str, scratch: Path, warn: Any) -> list[Path]:
    """Empty, with a word why, if they cannot be made here."""
    compiler, sources, made = compiler_for(machine), ROOT / "native", scratch / machine
    if compiler is None:
        warn(f"no compiler for {machine}: its native parts are not in the wheel, and compiled where it is installed")
        return []
    try:
        compile_into(made, sources, parts_for(machine), compiler)
    except EngineRefused as error:
        warn(f"native parts for {machine} are not in the wheel: {error}")
        return []
    write_note(made, hash_of(sources, machine))
    return [made / name for name in (*parts_for(machine), NOTE)]


def compiler_for(machine: str) -> str | None:
    own = (shutil.which("cc") or shutil.which("gcc")) if machine == platform.machine() else None
    return own or shutil.which(f"{machine}-linux-gnu-gcc")
