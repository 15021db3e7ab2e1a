"""A whole cut of a GPU at once: where several profiles go so that all of them fit. For one more instance see mig.best_start."""
from collections.abc import Sequence

from gpufairy.core.errors import BadInput
from gpufairy.core.mig import MigProfile, MigTable, open_starts


def lay_out(table: MigTable, kind: str, wanted: Sequence[str], taken: Sequence[tuple[int, int]] = ()) -> tuple[tuple[MigProfile, int], ...]:
    """Each wanted profile and its start, in the order asked, beside what is taken. BadInput says why they cannot fit."""
    profiles = [_profile(table, kind, name) for name in wanted]
    _at_most_one_with_media(kind, profiles)
    # The largest first: it has the fewest places, so a dead end shows at once.
    order = sorted(range(len(profiles)), key=lambda index: -profiles[index].size)
    starts = _starts([profiles[index] for index in order], table.memory_slices, list(taken))
    if starts is None:
        raise BadInput(_too_much(table, kind, profiles, taken), "Ask for fewer or smaller ones, such as " + _smallest(table) + ".")
    start_of = dict(zip(order, starts, strict=True))
    return tuple((profile, start_of[index]) for index, profile in enumerate(profiles))


def _profile(table: MigTable, kind: str, name: str) -> MigProfile:
    found = table.profile(name)
    if found is None:
        raise BadInput(f"{kind} has no MIG profile {name!r}", f"It has {', '.join(profile.name for profile in table.profiles)}.")
    return found


def _at_most_one_with_media(kind: str, profiles: Sequence[MigProfile]) -> None:
    with_media = [profile.name for profile in profiles if profile.name.endswith("+me")]
    if len(with_media) > 1:
        raise BadInput(f"{' + '.join(with_media)}: one {kind} has media engines for a single +me instance", "Leave out +me in all but one.")


def _starts(profiles: Sequence[MigProfile], slices: int, taken: list[tuple[int, int]]) -> list[int] | None:
    if sum(profile.size for profile in profiles) + sum(size for _, size in taken) > slices:  # else a long list searches for ever
        return None
    if not profiles:
        return []
    for start in open_starts(profiles[0], taken):
        rest = _starts(profiles[1:], slices, [*taken, (start, profiles[0].size)])
        if rest is not None:
            return [start, *rest]
    return None


def _too_much(table: MigTable, kind: str, profiles: Sequence[MigProfile], taken: Sequence[tuple[int, int]]) -> str:
    names, free = " + ".join(profile.name for profile in profiles), table.memory_slices - sum(size for _, size in taken)
    needed = sum(profile.size for profile in profiles)
    if needed > free:
        return f"{names} do not fit on one {kind}: they take {needed} memory slices, {free} of {table.memory_slices} are free"
    return f"{names} do not fit on one {kind}: a profile may begin only at certain slices, and no arrangement keeps them apart"


def _smallest(table: MigTable) -> str:
    return min(table.profiles, key=lambda profile: (profile.size, len(profile.name))).name
