"""Where to cut for a mix: as well as without one where all are asked for alike, and better where they are not."""
import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.mig import MigProfile, MigTable, best_start, open_starts
from gpufairy.core.mig_plan import largest_gap
from gpufairy.core.mig_worth import best_cut_for_mix, best_start_for_mix, unusable_slices
from gpufairy.devices.mig_tables import mig_tables

A100 = mig_tables()["A100-40GB"]
SKEWED = [
    {"1g.5gb": 1, "2g.10gb": 1, "3g.20gb": 1},
    {"1g.5gb": 8, "3g.20gb": 2},
    {"1g.5gb": 5, "2g.10gb": 1, "4g.20gb": 4},
    {"1g.5gb": 6, "1g.10gb": 1, "2g.10gb": 3},
]


def profile(name: str) -> MigProfile:
    return A100.profile(name)


@st.composite
def gpus(draw) -> tuple[MigTable, list[tuple[int, int]], MigProfile]:
    """Any GPU, cut in any way, and a profile that is asked for."""
    table = mig_tables()[draw(st.sampled_from(sorted(mig_tables())))]
    taken: list[tuple[int, int]] = []
    for one in draw(st.lists(st.sampled_from(table.profiles), max_size=6)):
        starts = open_starts(one, taken)
        if starts:
            taken.append((draw(st.sampled_from(starts)), one.size))
    return table, taken, draw(st.sampled_from(table.profiles))


@given(gpus())
def test_with_an_even_mix_no_smaller_region_is_kept_than_without(question):
    table, taken, wanted = question
    plain, ours = best_start(table, wanted, taken), best_start_for_mix(table, wanted, taken, {})
    assert (plain is None) == (ours is None)
    if plain is not None:
        assert largest_gap(table, [*taken, (ours, wanted.size)]) >= largest_gap(table, [*taken, (plain, wanted.size)])


@given(gpus(), st.dictionaries(st.sampled_from([one.name for one in A100.profiles]), st.floats(0, 10)))
def test_a_cut_is_open_and_loses_the_fewest_slices_to_the_mix(question, mix):
    table, taken, wanted = question
    start, starts = best_start_for_mix(table, wanted, taken, mix), open_starts(wanted, taken)
    assert (start in starts) if starts else (start is None)
    if starts:
        lost = {one: unusable_slices(table, [*taken, (one, wanted.size)], mix) for one in starts}
        assert lost[start] == pytest.approx(min(lost.values()))


def test_a_small_instance_goes_where_the_common_profile_cannot():
    assert best_start_for_mix(A100, profile("1g.5gb"), [], {"2g.10gb": 9, "1g.5gb": 1}) == 6


def test_the_slices_of_an_empty_gpu_that_a_profile_cannot_use_are_known():
    assert unusable_slices(A100, [], {"2g.10gb": 1}) == 2
    assert unusable_slices(A100, [], {"4g.20gb": 1, "7g.40gb": 1}) == 2


def test_of_several_gpus_the_one_is_cut_that_loses_least():
    half_open, empty = (A100, [(4, 4)]), (A100, [])
    assert best_cut_for_mix([empty, half_open], "3g.20gb", {"3g.20gb": 1, "7g.40gb": 1}) == (1, 0)


def test_a_gpu_without_the_profile_is_not_cut():
    assert best_cut_for_mix([(mig_tables()["A30-24GB"], [])], "3g.20gb", {"3g.20gb": 1}) is None


@pytest.mark.slow
@pytest.mark.parametrize("mix", SKEWED, ids=str)
def test_more_slices_are_granted_than_by_the_fullest_gpu_and_an_even_mix(mix):
    ours = np.mean([granted(mix, lambda gpus, name: best_cut_for_mix(gpus, name, mix), seed) for seed in range(3)])
    plain = np.mean([granted(mix, fullest_first, seed) for seed in range(3)])
    assert ours > plain


def fullest_first(gpus, name: str) -> tuple[int, int] | None:
    for place in sorted(range(len(gpus)), key=lambda place: -sum(size for _, size in gpus[place][1])):
        start = best_start(A100, profile(name), list(gpus[place][1]))
        if start is not None:
            return place, start
    return None


def granted(mix: dict[str, float], choose, seed: int, gpus: int = 8, requests: int = 4000, load: float = 1.1) -> float:
    """Of all slices asked for, %, on GPUs asked for a tenth more than they have. What does not fit is turned away."""
    rng, names = np.random.default_rng(seed), list(mix)
    parts = np.array([mix[name] for name in names], dtype=float) / sum(mix.values())
    rate = load * gpus * A100.memory_slices / sum(profile(name).size * part for name, part in zip(names, parts, strict=True))
    there: list[set[tuple[int, int]]] = [set() for _ in range(gpus)]
    ends: list[tuple[float, int, int, tuple[int, int]]] = []
    now = asked = got = 0.0
    for number in range(requests):
        now += float(rng.exponential(1 / rate))
        while ends and ends[0][0] <= now:
            _, _, place, cut = heapq.heappop(ends)
            there[place].discard(cut)
        name, lasts = names[int(rng.choice(len(names), p=parts))], float(rng.exponential())
        asked += profile(name).size
        found = choose([(A100, taken) for taken in there], name)
        if found is not None:
            cut = (found[1], profile(name).size)
            there[found[0]].add(cut)
            heapq.heappush(ends, (now + lasts, number, found[0], cut))
            got += profile(name).size
    return got / asked * 100
