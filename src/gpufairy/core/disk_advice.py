"""What somebody could remove to make room, in words. Nothing is ever removed by us: whoever reads this knows what they still need."""
from collections.abc import Iterable
from dataclasses import dataclass

from gpufairy.core.amounts import show_size
from gpufairy.core.disk import DiskUser, Sort

LEAST_BYTES = 100 * 2**20  # less is not worth a sentence
OLD_PART = 0.2  # of all that somebody has: less is nothing to speak of


@dataclass(frozen=True, slots=True)
class CleanUp:
    sort: str
    bytes: int
    what: str
    next_step: str


# What it is, and how whoever owns it gets rid of it.
SORTS = {
    "pip": (
        "Packages that pip and uv fetched take {size}",
        "`pip cache purge` and `uv cache clean` free it; they are fetched again when needed.",
    ),
    "conda": ("Packages that conda unpacked take {size}", "`conda clean --all` frees what no environment uses."),
    "huggingface": (
        "Hugging Face keeps {size} of models and data sets",
        "`huggingface-cli delete-cache` lets you choose; what is needed again is fetched again.",
    ),
    "torch": ("PyTorch keeps {size} of models it fetched", "Remove ~/.cache/torch; what is needed again is fetched again."),
    "cache": ("Programs keep {size} in ~/.cache", "Look with `du -sh ~/.cache/*`; caches may be removed, and fill again."),
    "pycache": (
        "Compiled Python files take {size}",
        "`find ~ -name __pycache__ -prune -exec rm -r {{}} +` removes them; Python makes them anew.",
    ),
    "notebooks": (
        "Jupyter keeps {size} of older notebooks",
        "`find ~ -name .ipynb_checkpoints -prune -exec rm -r {{}} +` removes them.",
    ),
    "trash": ("{size} lie in the trash", "Empty it: `gio trash --empty`, or remove ~/.local/share/Trash."),
    "checkpoints": (
        "Checkpoints that nobody used for a month take {size}",
        "Keep the best of each run and remove the rest; `fairy disk --largest` names some.",
    ),
    "cores": (
        "Core dumps of crashed programs take {size}",
        "`find ~ -name 'core*' -size +1M` shows them; remove them unless you debug one.",
    ),
}  # fmt: skip


def clean_up(of: DiskUser, least_bytes: int = LEAST_BYTES) -> tuple[CleanUp, ...]:
    """The most that could be freed first."""
    found = [said(one) for one in of.sorts if one.name in SORTS and one.bytes >= least_bytes]
    if of.old_bytes >= max(least_bytes, OLD_PART * of.bytes):
        what = f"{show_size(of.old_bytes)} were neither read nor written for half a year"
        found.append(CleanUp("old", of.old_bytes, what, "`fairy disk --oldest` names the largest: keep them elsewhere, or remove them."))
    return tuple(sorted(found, key=lambda one: -one.bytes))


def said(one: Sort) -> CleanUp:
    what, next_step = SORTS[one.name]
    return CleanUp(one.name, one.bytes, what.format(size=show_size(one.bytes)), next_step.format())


def freed_bytes(advice: Iterable[CleanUp]) -> int:
    """What can be had again. Checkpoints cannot, and what is old may be among the rest."""
    return sum(one.bytes for one in advice if one.sort not in ("checkpoints", "old"))
