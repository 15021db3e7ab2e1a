"""What each cloud must do for pools. Everything may be done twice: what is there already is left as it is, or changed to what is wanted."""
from typing import Protocol

from gpufairy.core.pool import Machine, Pool, Step

ROLE, OURS, AGENTS = "role", "gpufairy.io/pool", "accelerator"  # labels of a pool's nodes
GPU_TAINT = "nvidia.com/gpu"


class CloudPools(Protocol):
    async def machine(self, pool: Pool) -> Machine:
        """What its nodes will be. Raises BadInput for an instance without a GPU, or one that nobody knows."""

    async def steps(self, pool: Pool) -> tuple[Step, ...]:
        """All that it needs, with what of it is there. Nothing is made. Raises what make() would be refused with."""

    async def make(self, pool: Pool) -> str:
        """As far as it can be done now. What is waited for, in words; empty: all is there. Raises EngineRefused or EngineSilent."""

    async def remove(self, pool: Pool) -> str:
        """As make, the other way round."""


def node_labels(pool: Pool) -> dict[str, str]:
    """`role` is the users' own; the last lets our agents run there."""
    return {ROLE: pool.name, OURS: pool.name, AGENTS: "nvidia"}
