"""PCIe traffic as counters that only grow. The driver counts in 32 bits: a busy link goes round them fourteen times a second."""
from collections.abc import Container
from dataclasses import dataclass

from gpufairy.devices.nvml_gpm import Work

ROUND = 2**32  # bytes
MOST_ROUNDS = 1000  # at once: a minute of the fastest link. More is no traffic but a rate that went wrong


@dataclass(frozen=True, slots=True)
class Carried:
    """What a GPU sent and received. Its last 32 bits are what the driver said."""

    at_s: float
    sent_bytes: int | None
    received_bytes: int | None


class Pcie:
    """Keeps what each GPU carried so far. GPM tells how often the driver's numbers went round; without it, they went round once at most."""

    def __init__(self) -> None:
        self._carried: dict[str, Carried] = {}

    def carried(self, uuid: str, told: tuple[int | None, int | None], work: Work, now_s: float) -> Carried:
        """`told` by the driver: what was sent and received; `now_s` is of a clock that never runs back."""
        if None in told:  # for once, maybe: no reason to begin anew
            return Carried(now_s, *told)
        before = self._carried.get(uuid, Carried(now_s, None, None))
        elapsed_s = now_s - before.at_s
        now = Carried(
            now_s,
            grown(before.sent_bytes, told[0], _product(work.sent_bytes_s, elapsed_s)),
            grown(before.received_bytes, told[1], _product(work.received_bytes_s, elapsed_s)),
        )
        self._carried[uuid] = now
        return now

    def keep(self, uuids: Container[str]) -> None:
        self._carried = {uuid: carried for uuid, carried in self._carried.items() if uuid in uuids}


def grown(before: int | None, told: int | None, likely: float | None) -> int | None:
    """`likely`: how many bytes passed since `before`, about; None: nobody can tell."""
    if before is None or told is None or told >= ROUND:  # a driver that counts further needs no help
        return told
    passed = (told - before) % ROUND
    rounds = 0 if likely is None else round((likely - passed) / ROUND)
    return before + passed + ROUND * min(max(rounds, 0), MOST_ROUNDS)


def _product(bytes_s: float | None, elapsed_s: float) -> float | None:
    return None if bytes_s is None else bytes_s * elapsed_s
