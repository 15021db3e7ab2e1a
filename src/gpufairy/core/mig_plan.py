"""Plan a cut: where the wanted MIG profiles go on one GPU, given how it is cut now and what of it is in use.

What is in use is never touched; of what is idle as little goes as possible. Exact: every set of instances to give up is tried, the
smallest first, and in it every arrangement. A GPU has at most eight slices, so that is soon done.
"""
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from gpufairy.core.errors import BadInput
from gpufairy.core.mig import MigInstance, MigProfile, MigTable, has_media, open_starts, room_left

PART_OF_ONE = re.compile(r"\d+c\.")  # `1c.3g.20gb`: several compute instances share one GPU instance
MOST_WANTED = 64  # more than any GPU has slices: a longer list is a mistake, and need not be searched


@dataclass(frozen=True, slots=True)
class CutNow:
    """How a GPU is cut at this moment."""

    kind: str
    table: MigTable
    instances: tuple[MigInstance, ...] = ()
    in_use: frozenset[int] = frozenset()  # the first slices of those that somebody holds or computes on

    @property
    def idle(self) -> tuple[MigInstance, ...]:
        return tuple(one for one in self.instances if one.start not in self.in_use)

    @property
    def used(self) -> tuple[MigInstance, ...]:
        return tuple(one for one in self.instances if one.start in self.in_use)


@dataclass(frozen=True, slots=True)
class CutPlan:
    """`placements`: of every wanted profile, in the order asked. An instance without a UUID is to be made."""

    fits: bool
    placements: tuple[MigInstance, ...] = ()
    made: tuple[MigInstance, ...] = ()
    kept: tuple[MigInstance, ...] = ()
    touched: tuple[MigInstance, ...] = ()  # idle ones that would go
    why: str = ""  # it does not fit, in words

    @property
    def changes(self) -> bool:
        return bool(self.made or self.touched)

    @property
    def after(self) -> tuple[MigInstance, ...]:
        return tuple(sorted((*self.kept, *self.made), key=lambda one: one.start))


def plan_cut(now: CutNow, wanted: Sequence[str]) -> CutPlan:
    """What is there counts: a wanted profile that is cut already is not cut again, and what nobody asked for stays if it may."""
    profiles = wanted_profiles(now, wanted)
    if (why := never_fits(now, profiles)) is not None:
        return CutPlan(False, kept=now.instances, why=why)
    wholes = {one.start: one for one in now.idle}  # several compute instances on one GPU instance go together
    for count in range(len(wholes) + 1):
        found = [cut for gone in combinations(wholes, count) for cut in _cuts(now, profiles, frozenset(gone))]
        if found:
            return max(found, key=lambda cut: _goodness(now.table, cut))
    return CutPlan(False, kept=now.instances, why=_in_the_way(now, profiles))


def parse_wanted(text: str, what: str = "--want") -> tuple[str, ...]:
    """`3g.71gb,1g.18gb`; `2x1g.18gb` is two of them."""
    wanted: list[str] = []
    for part in text.lower().replace(" ", "").split(","):
        found = re.fullmatch(r"(?:([0-9]{1,2})x)?([0-9]{1,2}g\.[0-9]{1,4}gb[a-z.+-]{0,8})", part)
        if found is None:
            raise BadInput(f"{what}: {part[:40]!r} is no MIG profile", "Write them with commas, such as 3g.20gb,1g.5gb or 7x1g.5gb.")
        wanted += [found[2]] * int(found[1] or 1)
    if len(wanted) > MOST_WANTED:
        raise BadInput(f"{what}: {len(wanted)} instances on one GPU", "A GPU has eight slices at most.")
    return tuple(wanted)


def wanted_profiles(now: CutNow, wanted: Sequence[str]) -> list[MigProfile]:
    unknown = next((name for name in wanted if now.table.profile(name) is None), None)
    if unknown is not None:
        raise BadInput(f"{now.kind} has no MIG profile {unknown[:40]!r}", f"It has {', '.join(one.name for one in now.table.profiles)}.")
    return [profile for name in wanted if (profile := now.table.profile(name)) is not None]


def never_fits(now: CutNow, profiles: Sequence[MigProfile]) -> str | None:
    """Why not even an empty GPU of the kind could hold them."""
    names, table = cut_words([profile.name for profile in profiles]), now.table
    with_media = [profile.name for profile in profiles if has_media(profile.name)]
    if len(with_media) > 1:
        return f"{' + '.join(with_media)}: one {now.kind} has media engines for a single +me instance"
    slices, compute = sum(profile.size for profile in profiles), sum(profile.compute_slices for profile in profiles)
    if slices > table.memory_slices:
        return f"{names} take {slices} memory slices, and one {now.kind} has {table.memory_slices}"
    if compute > table.compute_slices:
        return f"{names} take {compute} compute slices, and one {now.kind} has {table.compute_slices}"
    if next(_arranged(_big_first(profiles), []), None) is None:
        return f"{names} do not fit on one {now.kind}: a profile may begin only at certain slices, and no arrangement keeps them apart"
    return None


def whole_profile(name: str) -> str:
    """Of the GPU instance, where a compute instance has only a part of it."""
    return PART_OF_ONE.sub("", name)


def cut_words(profiles: Sequence[str]) -> str:
    """`3g.20gb + 2 x 1g.5gb`."""
    counts = Counter(sorted(profiles, reverse=True))
    return " + ".join(name if count == 1 else f"{count} x {name}" for name, count in counts.items()) or "nothing"


def _cuts(now: CutNow, profiles: Sequence[MigProfile], gone: frozenset[int]) -> Iterator[CutPlan]:
    """Every cut that gives up just those instances, told by their first slices."""
    stays = [one for one in now.instances if one.start not in gone]
    lacking = Counter(profile.name for profile in profiles) - Counter(one.profile for one in stays)
    missing = [profile for profile in now.table.profiles for _ in range(lacking[profile.name])]
    if not _within_limits(now.table, stays, missing):
        return
    taken = list({(one.start, one.size) for one in stays})
    for starts in _arranged(_big_first(missing), taken):
        made = tuple(MigInstance(profile.name, start, profile.size, "") for profile, start in zip(_big_first(missing), starts, strict=True))
        placements = _in_order_asked(profiles, [*stays, *made])
        yield CutPlan(True, placements, made, tuple(stays), tuple(one for one in now.instances if one.start in gone))


def _within_limits(table: MigTable, stays: Sequence[MigInstance], missing: Sequence[MigProfile]) -> bool:
    whole = {one.start: whole_profile(one.profile) for one in stays}
    standing = [profile.compute_slices for name in whole.values() if (profile := table.profile(name)) is not None]
    media = sum(has_media(name) for name in (*whole.values(), *(profile.name for profile in missing)))
    return sum(standing) + sum(profile.compute_slices for profile in missing) <= table.compute_slices and media <= 1


def _big_first(profiles: Sequence[MigProfile]) -> list[MigProfile]:
    """The largest has the fewest places, so a dead end shows at once. Equal ones lie side by side, see _arranged."""
    return sorted(profiles, key=lambda profile: (-profile.size, -profile.compute_slices, profile.name))


def _arranged(profiles: Sequence[MigProfile], taken: list[tuple[int, int]], above: int = -1) -> Iterator[list[int]]:
    """All starts that keep them apart. Of two equal profiles the second lies above the first: else each pair would come twice."""
    if not profiles:
        yield []
        return
    first, rest = profiles[0], profiles[1:]
    for start in open_starts(first, taken):
        if start > above:
            below = start if rest and rest[0] == first else -1
            for others in _arranged(rest, [*taken, (start, first.size)], below):
                yield [start, *others]


def _in_order_asked(profiles: Sequence[MigProfile], there: Sequence[MigInstance]) -> tuple[MigInstance, ...]:
    left = sorted(there, key=lambda one: one.start)
    placements = []
    for profile in profiles:
        found = next(one for one in left if one.profile == profile.name)
        left.remove(found)
        placements.append(found)
    return tuple(placements)


def _goodness(table: MigTable, cut: CutPlan) -> tuple[int, int, tuple[int, ...]]:
    """The largest region left in one piece, then the most choice left, then a fixed order, so that the same question has one answer."""
    taken = [(one.start, one.size) for one in cut.after]
    return largest_gap(table, taken), room_left(table, taken), tuple(one.start for one in cut.made)


def largest_gap(table: MigTable, taken: Sequence[tuple[int, int]]) -> int:
    blocked = {slice_ for start, size in taken for slice_ in range(start, start + size)}
    runs = "".join("#" if slice_ in blocked else "." for slice_ in range(table.memory_slices)).split("#")
    return max(len(run) for run in runs)


def _in_the_way(now: CutNow, profiles: Sequence[MigProfile]) -> str:
    names, used = cut_words([profile.name for profile in profiles]), cut_words([one.profile for one in now.used])
    return f"{names} would fit on an empty {now.kind}, but {used} in use cannot be touched"
