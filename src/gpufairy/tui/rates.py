"""What passes through disks and networks of a host, from its counters in two answers."""
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpufairy.client.protocol import Record
from gpufairy.client.values import time_of


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes a second. None: not known, as it is until the second reading."""

    read: float | None = None
    written: float | None = None
    received: float | None = None
    sent: float | None = None


def rates_between(before: Record, now: Record) -> Rates | None:
    """None where no time has passed in between: both are the same reading."""
    began, ended = time_of(before.get("at")), time_of(now.get("at"))
    if began is None or ended is None or ended <= began:
        return None
    seconds = (ended - began).total_seconds()
    disks, networks = (before.get("disks") or [], now.get("disks") or []), (before.get("networks") or [], now.get("networks") or [])
    return Rates(
        _rate(*disks, "read_bytes", seconds), _rate(*disks, "written_bytes", seconds),
        _rate(*networks, "received_bytes", seconds), _rate(*networks, "sent_bytes", seconds),
    )  # fmt: skip


def _rate(before: Iterable[Record], now: Iterable[Record], counter: str, seconds: float) -> float | None:
    """Over the devices seen both times. A counter that fell began anew, and tells nothing."""
    was = {device.get("device"): device.get(counter) for device in before}
    risen = [
        device[counter] - was[device.get("device")] for device in now
        if device.get(counter) is not None and was.get(device.get("device")) is not None
    ]  # fmt: skip
    return None if not risen or min(risen) < 0 else sum(risen) / seconds


@dataclass(slots=True)
class RateBook:
    """Agents report less often than the screen asks: the last rate stands until there is a newer reading."""

    last: dict[str, Record] = field(default_factory=dict)
    rates: dict[str, Rates] = field(default_factory=dict)

    def see(self, nodes: Iterable[Record]) -> dict[str, Rates]:
        hosts = {str(node["name"]): host for node in nodes if (host := node.get("host"))}
        found = {name: self._of(name, host) for name, host in hosts.items()}
        self.last, self.rates = hosts, found
        return found

    def _of(self, name: str, host: Record) -> Rates:
        before = self.last.get(name)
        if before is None:
            return Rates()
        return rates_between(before, host) or self.rates.get(name, Rates())
