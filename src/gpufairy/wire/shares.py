"""Bodies about how GPUs are shared."""
from typing import Annotated

from pydantic import Field

from gpufairy.core.errors import BadInput
from gpufairy.core.node import Sharing
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import ShareRule
from gpufairy.wire.read import Strict

LEAST_FGPU, MOST_FGPU = 0.01, 1000
HOW_MANY_FGPU = "Write how many fGPU one GPU is, such as 5."
CHOICES = (Sharing.MPS, Sharing.TIME)  # MIG is a cut, not a rule: see `fairy mig`


class ShareBody(Strict):
    of: Annotated[str, Field(max_length=255)] = "*"
    fgpu: float | int | None = None
    sharing: Annotated[str, Field(max_length=20)] | None = None

    def to_rule(self) -> ShareRule:
        if self.fgpu is None and self.sharing is None:
            raise BadInput("share: found neither fgpu nor sharing", "Say how many fGPU a GPU is (5), or how it is shared (mps, time).")
        if self.sharing is not None and self.sharing not in CHOICES:
            raise BadInput(f"sharing: found {self.sharing[:40]!r}", f"Write one of {', '.join(CHOICES)}.")
        fgpu_parts = None if self.fgpu is None else parts_of_fgpu(self.fgpu, "fgpu")
        return ShareRule(self.of, fgpu_parts, None if self.sharing is None else Sharing(self.sharing))


def parts_of_fgpu(fgpu: float, what: str) -> int:
    if not LEAST_FGPU <= fgpu <= MOST_FGPU:  # also not for NaN
        raise BadInput(f"{what}: {fgpu} is not between {LEAST_FGPU} and {MOST_FGPU}", HOW_MANY_FGPU)
    return round(fgpu * PARTS)  # 8.2 is a little less, as computers count
