"""GPUs that are not there, for trying gpufairy out. Whatever shows one says that it is simulated."""
import re
from collections.abc import Sequence
from difflib import get_close_matches

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.mig import MigInstance, MigTable
from gpufairy.core.mig_layout import lay_out
from gpufairy.core.node import Gpu
from gpufairy.devices.kinds import ALIASES, MEMORY_MIB, MIB, kind_named
from gpufairy.devices.mig_tables import mig_tables

MOST_OF_A_KIND = 64
MOST_GPUS = 1024
LONGEST_TEXT = 4096
HOW_TO_WRITE = "Write count x kind, such as 4xA100-40GB,1xH200; add :mig or a cut, :mig=3g.20gb+2g.10gb."
_PART = re.compile(r"(?:([0-9]{1,4})[xX])?([A-Za-z][A-Za-z0-9-]{0,30})")


def parse_simulate(text: str, what: str = "--simulate", host: str = "") -> tuple[Gpu, ...]:
    """`4xA100-40GB,1xH200`; with `:mig` cut on demand, with `:mig=3g.20gb+2g.10gb` cut for good.

    `host`: in the UUIDs, where several hosts are simulated and looked at together.
    """
    if len(text) > LONGEST_TEXT:
        raise BadInput(f"{what}: {len(text)} characters are too many", HOW_TO_WRITE)
    gpus: list[Gpu] = []
    for part in text.replace(" ", "").split(","):
        gpus += _gpus(part, what, len(gpus), host)
        if len(gpus) > MOST_GPUS:
            raise BadInput(f"{what}: more than {MOST_GPUS} GPUs on one machine", HOW_TO_WRITE)
    return tuple(gpus)


def _gpus(part: str, what: str, first: int, host: str) -> list[Gpu]:
    body, _, mode = part.partition(":")
    match = _PART.fullmatch(body)
    if match is None or not (mode in ("", "mig") or mode.startswith("mig=")):
        raise BadInput(f"{what}: {shown(part)} is no count and kind of GPUs", HOW_TO_WRITE)
    count = int(match[1] or 1)
    if not 1 <= count <= MOST_OF_A_KIND:
        raise BadInput(f"{what}: {shown(part)} is not between 1 and {MOST_OF_A_KIND} of a kind", HOW_TO_WRITE)
    kind = kind_named(match[2])
    if kind is None:
        raise BadInput(f"{what}: {shown(match[2])} is no kind of GPU that can be simulated", _kinds_like(match[2]))
    table = _table(kind, what) if mode else None
    cut = tuple(mode.removeprefix("mig=").split("+")) if mode.startswith("mig=") else None
    return [_gpu(first + number, kind, table, cut, host) for number in range(count)]


def _table(kind: str, what: str) -> MigTable:
    table = mig_tables().get(kind)
    if table is None:
        raise BadInput(f"{what}: {kind} cannot be cut by MIG", f"These can: {', '.join(mig_tables())}.")
    return table


def _gpu(index: int, kind: str, table: MigTable | None, cut: tuple[str, ...] | None, host: str) -> Gpu:
    name = f"simulated-{host}-{index:04d}" if host else f"simulated-{index:04d}"
    instances = None
    if table is not None and cut is not None:
        laid_out = lay_out(table, kind, cut_names(cut))
        instances = tuple(
            MigInstance(profile.name, start, profile.size, f"MIG-{name}-{number:02d}")
            for number, (profile, start) in enumerate(laid_out)
        )
    return Gpu(index, f"GPU-{name}", kind, MEMORY_MIB[kind] * MIB, simulated=True, mig=table, instances=instances)


def cut_names(parts: Sequence[str]) -> list[str]:
    """Parted at each plus, `1g.5gb+me` came in two: put it together again."""
    names: list[str] = []
    for part in parts:
        if part == "me" and names:
            names[-1] += "+me"
        else:
            names.append(part)
    return names


def _kinds_like(text: str) -> str:
    near = get_close_matches(text.upper(), [*MEMORY_MIB, *ALIASES], n=3, cutoff=0.5)
    return (f"Did you mean {' or '.join(near)}? " if near else "") + f"There are {', '.join(MEMORY_MIB)}."
