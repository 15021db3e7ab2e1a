"""Share: what part of GPUs is asked for. Whole GPUs, a fraction of one (in GPUs or in fGPU), or a MIG profile.

Amounts are whole numbers of parts, so that sums never drift: one GPU is PARTS parts.
"""
import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput

PARTS = 1_000_000  # of one GPU: fine enough for 1/7 and for fGPU, and sums stay exact
MOST_GPUS = 1024
_NUMBER = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,6})?|\.[0-9]{1,6})(fgpu)?")
_PROFILE = re.compile(r"[1-9]g\.[0-9]{1,3}gb(\+[a-z.]{1,8}|-[a-z.]{1,8})?")
HOW_TO_ASK = "Ask for 0, for whole GPUs (2), for a fraction (0.5 or 0.5fgpu) or for a MIG profile (mig:1g.5gb)."


class ShareKind(StrEnum):
    NONE = "none"
    WHOLE = "whole"
    FRACTION = "fraction"  # of one GPU
    FGPU = "fgpu"  # in the admin's unit: how many fGPU a GPU is, each GPU says itself
    MIG = "mig"


@dataclass(frozen=True, slots=True)
class Share:
    kind: ShareKind
    parts: int = 0  # WHOLE and FRACTION: parts of a GPU; FGPU: parts of an fGPU; NONE and MIG: 0
    profile: str = ""  # MIG alone

    @property
    def whole_gpus(self) -> int:
        return self.parts // PARTS if self.kind is ShareKind.WHOLE else 0

    def __str__(self) -> str:
        """As it was asked, and as parse_share reads it again."""
        if self.kind is ShareKind.MIG:
            return f"mig:{self.profile}"
        return show_parts(self.parts) + ("fgpu" if self.kind is ShareKind.FGPU else "")


NO_GPU = Share(ShareKind.NONE)
ONE_GPU = Share(ShareKind.WHOLE, PARTS)


def parse_share(text: str, what: str = "gpus") -> Share:
    compact = text.strip().lower()
    if compact.startswith("mig:"):
        return _mig(compact.removeprefix("mig:"), what)
    match = _NUMBER.fullmatch(compact)
    if match is None:
        raise BadInput(f"{what}: {shown(text)} is no GPU share", HOW_TO_ASK)
    parts = int(Decimal(match[1]) * PARTS)
    if parts > MOST_GPUS * PARTS:
        raise BadInput(f"{what}: {shown(text)} is more than {MOST_GPUS} GPUs", HOW_TO_ASK)
    if match[2]:
        return Share(ShareKind.FGPU, parts) if parts else NO_GPU
    if parts % PARTS == 0:
        return Share(ShareKind.WHOLE, parts) if parts else NO_GPU
    if parts > PARTS:
        raise BadInput(f"{what}: {shown(text)} GPUs is neither a whole number nor less than one", HOW_TO_ASK)
    return Share(ShareKind.FRACTION, parts)


def _mig(profile: str, what: str) -> Share:
    if not _PROFILE.fullmatch(profile):
        raise BadInput(f"{what}: {shown(profile)} is no MIG profile", "Write it as NVIDIA does, such as mig:1g.5gb or mig:3g.20gb.")
    return Share(ShareKind.MIG, 0, profile)


def show_parts(parts: int) -> str:
    return f"{parts / PARTS:.6f}".rstrip("0").rstrip(".")
