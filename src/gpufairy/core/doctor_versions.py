"""Versions of other people's programs, as numbers that can be compared; and the holes that old ones have."""
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

NUMBERS = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?")
Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Hole:
    cve: str
    mended: tuple[Version, ...]  # the first sound release of each line, oldest line first
    means: str  # what somebody can do through it


RUNC_HOLES = (
    Hole("CVE-2024-21626", ((1, 1, 12),), "a container can reach the host's files"),
    Hole("CVE-2025-31133", ((1, 2, 8), (1, 3, 3)), "a container can write to the host's kernel settings and break out"),
)
TOOLKIT_HOLES = (
    Hole("CVE-2024-0132", ((1, 16, 2),), "an image can mount the host's files"),
    Hole("CVE-2025-23266", ((1, 17, 8),), "an image can run programs on the host as root"),
)


def parse_version(text: str) -> Version | None:
    """`1.17.8-rc.1`, `v1.3.3`, `580.159.04`: the first three numbers. A forerunner counts as what it runs before."""
    found = NUMBERS.search(text)
    return None if found is None else (int(found[1]), int(found[2] or 0), int(found[3] or 0))


def open_holes(version: Version, holes: Sequence[Hole], mended: Collection[str] = ()) -> list[Hole]:
    """`mended`: what the changelog of its package names: distributions mend holes and leave the number as it is."""
    return [hole for hole in holes if hole.cve not in mended and not is_sound(version, hole.mended)]


def is_sound(version: Version, mended: Sequence[Version]) -> bool:
    """A line of releases that is mended for itself counts for itself; newer ones than all of them are sound."""
    own_line = [first for first in mended if first[:2] == version[:2]]
    return version >= (own_line[0] if own_line else mended[-1])


def holes_words(holes: Sequence[Hole]) -> str:
    """The first in full: each of them is reason enough."""
    first, others = holes[0], ", ".join(hole.cve for hole in holes[1:])
    return f"{first.cve}: {first.means}" + (f" (also {others})" if others else "")
