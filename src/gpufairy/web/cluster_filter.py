"""Which hosts and GPUs of the cluster page are shown: as its address says, so that what somebody sees can be sent to another."""
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

LONGEST = 100  # of a value: what is longer is no name of anything here


@dataclass(frozen=True, slots=True)
class Filter:
    free: bool = False  # only GPUs of which something is free
    mine: bool = False  # only GPUs on which the reader holds something
    kind: str = ""
    pool: str = ""
    host: str = ""  # a part of its name
    state: str = ""

    @property
    def query(self) -> str:
        said = {name: value for name, value in self.words().items() if value}
        return f"?{urlencode(said)}" if said else ""

    @property
    def of_gpus(self) -> bool:
        return self.free or self.mine or bool(self.kind)

    @property
    def is_set(self) -> bool:
        return self != Filter()

    def words(self) -> dict[str, str]:
        return {
            "free": "1" if self.free else "", "mine": "1" if self.mine else "", "kind": self.kind, "pool": self.pool, "host": self.host,
            "state": self.state,
        }  # fmt: skip

    def with_free(self) -> str:
        return "/cluster" + replace(self, free=not self.free).query

    def with_mine(self) -> str:
        return "/cluster" + replace(self, mine=not self.mine).query

    def takes_host(self, name: str, pool: str, state: str) -> bool:
        return self.host.lower() in name.lower() and self.pool in ("", pool) and self.state in ("", state)

    def takes_gpu(self, kind: str, *, free: bool, mine: bool) -> bool:
        return self.kind in ("", kind) and (free or not self.free) and (mine or not self.mine)


def filter_of(query: Mapping[str, str]) -> Filter:
    """What is not understood is not asked."""
    words = {name: query.get(name, "").strip()[:LONGEST] for name in ("kind", "pool", "host", "state")}
    return Filter(free=query.get("free") == "1", mine=query.get("mine") == "1", **words)
