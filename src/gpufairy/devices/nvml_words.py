"""What the driver's names and numbers mean in our words: kinds of GPU, MIG profiles, reasons for slow clocks. Pure."""
import re

from gpufairy.core.reading import THROTTLE_WORDS
from gpufairy.devices.kinds import MEMORY_MIB

BRANDS = ("NVIDIA", "GEFORCE", "TESLA", "QUADRO")
FIRST_THROTTLE_BIT = 2  # bits 0 and 1 say idle, and clocks that somebody set: neither slows a GPU that has work
_PROFILE = re.compile(r"\bMIG (\S{1,40})$")


def kind_of(product: str, memory_mib: int) -> str:
    """`NVIDIA A100-SXM4-40GB` is our A100-40GB; one that we have no name for keeps its own, made fit for a label."""
    words = [word for word in re.sub(r"[^A-Z0-9]+", " ", product.upper()).split() if word not in BRANDS]
    fits = {kind: size for kind, size in MEMORY_MIB.items() if abs(size - memory_mib) < size * 0.05}
    named = "".join(words), "".join(words).removeprefix("RTX")  # "RTX A6000" is our A6000
    likely = [kind for kind in fits if any(name.startswith(model_of(kind)) for name in named)]
    return max(likely, key=lambda kind: len(model_of(kind))) if likely else "-".join(words)[:40] or "GPU"


def model_of(kind: str) -> str:
    return re.sub(r"-\d+GB$", "", kind).replace("-", "").upper()


def profile_in(name: str) -> str | None:
    """`NVIDIA A100-SXM4-40GB MIG 1g.5gb` is cut as 1g.5gb, and so is a profile that calls itself `MIG 1g.5gb`."""
    found = _PROFILE.search(name)
    return found[1] if found else None


def throttle_words(mask: int) -> tuple[str, ...]:
    """By nvmlClocksEventReason*: THROTTLE_WORDS stand in the order of their bits."""
    return tuple(word for bit, word in enumerate(THROTTLE_WORDS, FIRST_THROTTLE_BIT) if mask >> bit & 1)


def cuda_text(version: int) -> str:
    """13000 is 13.0, 12040 is 12.4."""
    return f"{version // 1000}.{version % 1000 // 10}"


def part(percent: float) -> float | None:
    """0 to 1; None for what cannot be a percentage: the driver hands out such values now and then, and NaN."""
    return percent / 100 if 0 <= percent <= 100 else None
