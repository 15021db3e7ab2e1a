"""A plan of a cut as plain values, the same from the server and from `fairy mig plan --kind` without one."""
from typing import Any

from gpufairy.core.mig import MigInstance
from gpufairy.core.mig_plan import CutPlan


def plan_to_plain(plan: CutPlan) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "fits": plan.fits,
        "placements": [place_to_plain(one) for one in plan.placements],
        "touched": [one.uuid for one in plan.touched],
        "made": [place_to_plain(one) for one in plan.made],
        "kept": [{**place_to_plain(one), "uuid": one.uuid or None} for one in plan.kept],
    }
    return plain if plan.fits else {**plain, "why": plan.why}


def place_to_plain(one: MigInstance) -> dict[str, Any]:
    return {"profile": one.profile, "start": one.start, "size": one.size}
