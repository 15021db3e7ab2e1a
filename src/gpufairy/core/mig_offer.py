"""What a GPU's cut still takes: which profiles are free now, which could be cut beside what is there, and what the others would cost."""
from dataclasses import dataclass, replace
from functools import lru_cache

from gpufairy.core.mig_plan import CutNow, plan_cut

CUTS_KEPT = 4096  # some KiB each; without, the eight GPUs of a host take a tenth of a second to tell


@dataclass(frozen=True, slots=True)
class Offer:
    """One more instance of a profile."""

    profile: str
    free: int  # so many are cut and idle
    fits: bool  # one more could be cut now
    touched: int = 0  # so many idle instances would go for it
    why: str = ""  # it cannot, in words


def offers(now: CutNow) -> tuple[Offer, ...]:
    """Many GPUs are cut alike, and are looked at again and again: which instances they are makes no difference."""
    return _offers(replace(now, instances=tuple(replace(one, uuid="") for one in now.instances)))


@lru_cache(CUTS_KEPT)
def _offers(now: CutNow) -> tuple[Offer, ...]:
    return tuple(_offer(now, profile.name) for profile in now.table.profiles)


def _offer(now: CutNow, name: str) -> Offer:
    idle = [one.profile for one in now.idle if one.profile == name]
    used = [one.profile for one in now.used if now.table.profile(one.profile) is not None]
    plan = plan_cut(now, [*used, *idle, name])
    return Offer(name, len(idle), plan.fits, len(plan.touched), plan.why)
