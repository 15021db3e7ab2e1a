"""After GPUs were cut anew: the CDI files must name the new MIG instances, else no container gets them. NVIDIA's own tool writes them."""
import asyncio
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gpufairy.engines.cdi import KIND, USUAL_FOLDERS, device_names, read_spec

TOOL = "nvidia-ctk"
DEFAULT = Path("/var/run/cdi/nvidia.yaml")  # gone with a reboot, as MIG instances are
LONGEST_S = 60.0


async def refresh_cdi(folders: Sequence[Path] = USUAL_FOLDERS, tool: str = TOOL) -> str:
    """What is left for a person to do, in words; empty: nothing."""
    return await asyncio.to_thread(refresh, folders, tool)


def refresh(folders: Sequence[Path], tool: str) -> str:
    named = [path for folder in folders for path in sorted(folder.glob("*")) if names_gpus(path)]
    program = shutil.which(tool)
    if program is None:
        by_hand = f"{named[0]} does not name the new MIG instances: run `{tool} cdi generate --output={named[0]}`" if named else ""
        return by_hand  # without such files the container engine finds instances by itself
    command = [program, "cdi", "generate", f"--output={named[0] if named else DEFAULT}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"containers may not see the new MIG instances: `{' '.join(command)}` failed: {error}"
    if done.returncode != 0:
        return f"containers may not see the new MIG instances: `{' '.join(command)}` says {done.stderr.strip()[-200:]}"
    return ""


def names_gpus(path: Path) -> bool:
    return path.suffix in (".json", ".yaml", ".yml") and bool(device_names(read_spec(path), KIND))
