"""The NVIDIA GPUs of this machine, as `nvidia-smi` tells them: another process, so that a hung driver costs seconds at most."""
import re
import shutil
import subprocess
from dataclasses import dataclass

from gpufairy.core.node import Gpu
from gpufairy.devices.kinds import MEMORY_MIB, MIB

BRANDS = ("NVIDIA", "GEFORCE", "TESLA", "QUADRO")
LONGEST_ANSWER_S = 20  # a driver that is being loaded takes about ten
QUERY = ("--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader,nounits")


@dataclass(frozen=True, slots=True)
class Nvidia:
    gpus: tuple[Gpu, ...] = ()
    driver_cuda: str | None = None  # the highest CUDA version that the driver takes
    trouble: str = ""  # why nothing was found though there should be something


def found_nvidia(program: str = "nvidia-smi") -> Nvidia:
    if shutil.which(program) is None:
        return Nvidia()
    try:
        listed = subprocess.run([program, *QUERY], capture_output=True, text=True, timeout=LONGEST_ANSWER_S, check=False)
        about = subprocess.run([program], capture_output=True, text=True, timeout=LONGEST_ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Nvidia(trouble=f"{program} gave no answer: {error}")
    if listed.returncode != 0:
        return Nvidia(trouble=f"{program} failed: {(listed.stdout + listed.stderr).strip()[:200]}")
    cuda = re.search(r"CUDA Version:\s*(\d+\.\d+)", about.stdout)
    return Nvidia(read_gpus(listed.stdout), cuda[1] if cuda else None)


def read_gpus(listing: str) -> tuple[Gpu, ...]:
    """Lines that cannot be read are GPUs that cannot be used: `[Unknown Error]` for one that fell off the bus."""
    rows = [[part.strip() for part in line.split(",")] for line in listing.splitlines()]
    return tuple(
        Gpu(int(row[0]), row[1], kind_of(row[2], int(row[3])), int(row[3]) * MIB)
        for row in rows
        if len(row) == 4 and row[0].isdecimal() and row[1].startswith("GPU-") and row[3].isdecimal()
    )


def kind_of(product: str, memory_mib: int) -> str:
    """`NVIDIA A100-SXM4-40GB` is our A100-40GB; one that we have no name for keeps its own, made fit for a label."""
    words = [word for word in re.sub(r"[^A-Z0-9]+", " ", product.upper()).split() if word not in BRANDS]
    fits = {kind: size for kind, size in MEMORY_MIB.items() if abs(size - memory_mib) < size * 0.05}
    named = "".join(words), "".join(words).removeprefix("RTX")  # "RTX A6000" is our A6000
    likely = [kind for kind in fits if any(name.startswith(model_of(kind)) for name in named)]
    return max(likely, key=lambda kind: len(model_of(kind))) if likely else "-".join(words)[:40] or "GPU"


def model_of(kind: str) -> str:
    return re.sub(r"-\d+GB$", "", kind).replace("-", "").upper()
