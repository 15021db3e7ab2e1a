"""Bodies about pools."""
import math
from datetime import datetime
from typing import Annotated

from pydantic import Field

from gpufairy.core.amounts import parse_cpus, parse_size
from gpufairy.core.errors import BadInput
from gpufairy.core.names import label
from gpufairy.core.pool import Cloud, Machine, Pool, pool_name
from gpufairy.wire.read import Strict

MOST_NODES = 1000
Word = Annotated[str, Field(max_length=255)]


class PoolBody(Strict):
    name: Annotated[str, Field(max_length=60)]
    cloud: Word
    cluster: Word = ""
    instance: Word
    min: int = 0
    max: int = 4
    dry_run: bool = False
    # What one cloud wants to know, and others do not.
    region: Word | None = None
    node_role: Word | None = None
    node_class: Word | None = None
    capacity: Word | None = None
    empty_after: Word | None = None
    # Of a machine that is not in the table.
    gpus: Annotated[int, Field(ge=1, le=64)] | None = None
    gpu_kind: Word | None = None
    gpu_memory: Word | None = None
    cpus: Word | None = None
    memory: Word | None = None
    price: float | None = None

    def to_pool(self, actor: str, now: datetime) -> Pool:
        if self.cloud not in set(Cloud):
            raise BadInput(f"cloud: found {self.cloud[:40]!r}", f"Write one of {', '.join(Cloud)}.")
        if not 0 <= self.min <= self.max <= MOST_NODES or not self.max:
            found = f"min and max: found {self.min} and {self.max}"
            raise BadInput(found, f"Write 0 or more nodes at least, and 1 to {MOST_NODES} at most, such as --min 0 --max 4.")
        machine = Machine(label(self.instance, "instance"), "", 0, 0, 0, 0)
        cluster = label(self.cluster, "cluster") if self.cluster else ""
        return Pool(pool_name(self.name), Cloud(self.cloud), cluster, machine, self.min, self.max, actor, now, options=self._options())

    def _options(self) -> dict[str, str]:
        words = ("region", "node_role", "node_class", "capacity", "empty_after", "gpu_kind", "gpu_memory", "cpus", "memory")
        said = {name: label(value, name) for name in words if (value := getattr(self, name)) is not None}
        if "cpus" in said:
            parse_cpus(said["cpus"])
        for name in ("gpu_memory", "memory"):
            if name in said:
                parse_size(said[name], name)
        if self.price is not None and not (math.isfinite(self.price) and 0 <= self.price <= 10_000):
            raise BadInput(f"price: found {self.price}", "Write dollars an hour, such as 1.006.")
        numbers = {"gpus": self.gpus, "price": self.price}
        return {**said, **{name: str(value) for name, value in numbers.items() if value is not None}}
