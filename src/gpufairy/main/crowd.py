"""Crowd: who is connected to page and API over the network. So many in all, so many of one address; whoever sends nothing makes room."""
import asyncio
from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from gpufairy.core.limits import Limit
from gpufairy.core.source import Trusted, source_of


@dataclass(frozen=True, slots=True)
class CrowdLimits:
    connections: int = 8192
    per_source: int = 1024  # a lab behind one address: forty students with six connections each are 240
    trusted: Trusted = field(default_factory=Trusted)  # have many people behind them, so their connections are counted in all alone


class Crowd:
    def __init__(self, limits: CrowdLimits | None = None) -> None:
        self._limits = limits or CrowdLimits()
        self._source_of: dict[asyncio.Transport, str] = {}
        self._of_source: Counter[str] = Counter()
        self._silent: OrderedDict[asyncio.Transport, None] = OrderedDict()  # we wait for them, the longest silent first

    def __len__(self) -> int:
        return len(self._source_of)

    def come(self, line: asyncio.Transport, host: str) -> Limit | None:
        """The limit that keeps it out; None: it is in."""
        source = source_of(host)
        if self._of_source[source] >= self._limits.per_source and not self._limits.trusted.has(host):
            return Limit.CONNECTIONS_PER_SOURCE
        if len(self) >= self._limits.connections and not self._make_room():
            return Limit.CONNECTIONS
        self._source_of[line] = source
        self._of_source[source] += 1
        self._silent[line] = None
        return None

    def has_asked(self, line: asyncio.Transport) -> None:
        """A whole request: now it waits for us."""
        self._silent.pop(line, None)

    def is_answered(self, line: asyncio.Transport) -> None:
        if line in self._source_of:
            self._silent[line] = None

    def left(self, line: asyncio.Transport) -> None:
        """Said of each, and perhaps twice."""
        source = self._source_of.pop(line, None)
        self._silent.pop(line, None)
        if source is not None:
            self._of_source[source] -= 1
            if not self._of_source[source]:
                del self._of_source[source]

    def _make_room(self) -> bool:
        """An idle connection costs its owner nothing but to open another."""
        if not self._silent:
            return False
        line = next(iter(self._silent))
        self.left(line)
        line.abort()
        return True
