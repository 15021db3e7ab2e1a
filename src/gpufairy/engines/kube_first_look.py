"""The first lists of a server that starts: waited for, but not where Kubernetes has said no, for that stays so."""
import asyncio
from collections.abc import Sequence
from typing import Any

from gpufairy.core.errors import EngineSilent
from gpufairy.engines.kube.errors import KubeRefused
from gpufairy.engines.kube.watch import Watched

FINAL = (401, 403)
LOOK_S = 0.05


async def first_look(watches: Sequence[Watched[Any]], within_s: float) -> None:
    """Raises EngineSilent, or what the API server said no with."""
    deadline_s = asyncio.get_running_loop().time() + within_s
    while not all(one.ready.is_set() for one in watches):
        troubles = [one.trouble for one in watches if not one.ready.is_set() and one.trouble is not None]
        for trouble in troubles:
            if isinstance(trouble, KubeRefused) and trouble.status in FINAL:
                raise trouble
        if asyncio.get_running_loop().time() > deadline_s:
            raise troubles[0] if troubles else EngineSilent(f"Kubernetes has not told what it has within {within_s:g} s", "Is it up?")
        await asyncio.sleep(LOOK_S)
