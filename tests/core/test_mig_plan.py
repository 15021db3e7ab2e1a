"""Plan a cut: the fewest idle instances go, what is in use stays, and nothing that fits is refused."""
from collections import Counter
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.errors import BadInput
from gpufairy.core.mig import MigInstance, MigTable
from gpufairy.core.mig_plan import CutNow, cut_words, largest_gap, parse_wanted, plan_cut
from gpufairy.devices.mig_tables import mig_tables

pytestmark = pytest.mark.slow

A100, A30 = mig_tables()["A100-40GB"], mig_tables()["A30-24GB"]
KINDS = sorted(mig_tables())


def instance(name: str, start: int, table: MigTable = A100) -> MigInstance:
    return MigInstance(name, start, table.profile(name).size, f"MIG-{start}")


def cut_as(*cut: tuple[str, int], used: tuple[int, ...] = (), kind: str = "A100-40GB") -> CutNow:
    return CutNow(kind, mig_tables()[kind], tuple(instance(*one, mig_tables()[kind]) for one in cut), frozenset(used))


def places(plan) -> list[tuple[str, int]]:
    return [(one.profile, one.start) for one in plan.placements]


@st.composite
def cuts(draw) -> CutNow:
    """Any cut that NVIDIA's rules allow, with any part of it in use."""
    kind = draw(st.sampled_from(KINDS))
    table = mig_tables()[kind]
    there: list[MigInstance] = []
    for profile, start in draw(st.permutations([(one, start) for one in table.profiles for start in one.starts])):
        candidate = MigInstance(profile.name, start, profile.size, f"MIG-{start}")
        if draw(st.booleans()) and allowed(table, [*there, candidate]):
            there.append(candidate)
    used = frozenset(one.start for one in there if draw(st.booleans()))
    return CutNow(kind, table, tuple(there), used)


def allowed(table: MigTable, there: list[MigInstance]) -> bool:
    slices = [slice_ for one in there for slice_ in range(one.start, one.start + one.size)]
    apart = len(slices) == len(set(slices)) and all(slice_ < table.memory_slices for slice_ in slices)
    starts = all(one.start in table.profile(one.profile).starts for one in there)
    media = sum(one.profile.endswith("+me") for one in there) <= 1
    return apart and starts and media and sum(table.profile(one.profile).compute_slices for one in there) <= table.compute_slices


@st.composite
def questions(draw) -> tuple[CutNow, list[str]]:
    now = draw(cuts())
    return now, draw(st.lists(st.sampled_from([profile.name for profile in now.table.profiles]), min_size=1, max_size=5))


@settings(max_examples=300, deadline=None)
@given(questions())
def test_a_plan_keeps_nvidias_rules_and_what_is_in_use(question):
    now, wanted = question
    plan = plan_cut(now, wanted)
    if not plan.fits:
        assert plan.why
        assert not plan.touched
        return
    assert allowed(now.table, list(plan.after))
    assert [one.profile for one in plan.placements] == wanted
    assert len({one.start for one in plan.placements}) == len(wanted)
    assert set(now.used) <= set(plan.kept)
    assert not set(plan.touched) & set(now.used)
    assert set(plan.kept) | set(plan.touched) == set(now.instances)
    assert not Counter(wanted) - Counter(one.profile for one in plan.after)


def fewest_touched(now: CutNow, wanted: list[str]) -> int | None:
    """By trying all: every set of idle instances to give up, and every start of everything that is then missing."""
    for count in range(len(now.idle) + 1):
        for gone in combinations(now.idle, count):
            stays = [one for one in now.instances if one not in gone]
            missing = list((Counter(wanted) - Counter(one.profile for one in stays)).elements())
            for starts in product(*(now.table.profile(name).starts for name in missing)):
                made = [MigInstance(name, start, now.table.profile(name).size, "") for name, start in zip(missing, starts, strict=True)]
                if allowed(now.table, [*stays, *made]):
                    return count
    return None


@settings(max_examples=150, deadline=None)
@given(questions())
def test_the_search_is_exact(question):
    now, wanted = question
    plan = plan_cut(now, wanted)
    assert (len(plan.touched) if plan.fits else None) == fewest_touched(now, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_as_many_of_each_profile_as_nvidia_says_can_be_had(kind):
    table, most = mig_tables()[kind], {1: 7, 2: 3, 3: 2, 4: 1, 7: 1}
    for profile in table.profiles:
        if profile.name.endswith("+me"):
            many = 1
        elif table.compute_slices == 4:
            many = 4 // profile.size
        else:
            many = 4 if (profile.compute_slices, profile.size) == (1, 2) else most[profile.compute_slices]
        assert plan_cut(CutNow(kind, table), [profile.name] * many).fits, (kind, profile.name)
        assert not plan_cut(CutNow(kind, table), [profile.name] * (many + 1)).fits, (kind, profile.name)


def test_the_big_one_goes_where_it_may_begin():
    assert places(plan_cut(CutNow("A100-40GB", A100), ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"]))[3] == ("3g.20gb", 4)


def test_what_is_cut_already_is_not_cut_again():
    now = cut_as(("3g.20gb", 4), ("1g.5gb", 0))
    plan = plan_cut(now, ["3g.20gb"])
    assert (plan.fits, plan.changes, places(plan)) == (True, False, [("3g.20gb", 4)])
    assert plan.kept == now.instances


def test_the_fewest_idle_instances_go():
    now = cut_as(("1g.5gb", 0), ("1g.5gb", 1), ("1g.5gb", 2), ("1g.5gb", 4))
    plan = plan_cut(now, ["3g.20gb"])
    assert ([one.start for one in plan.touched], places(plan)) == ([4], [("3g.20gb", 4)])


def test_what_is_in_use_is_never_touched_even_if_that_costs_more():
    now = cut_as(("1g.5gb", 0), ("1g.5gb", 1), ("1g.5gb", 2), ("1g.5gb", 4), used=(4,))
    plan = plan_cut(now, ["3g.20gb"])
    assert ([one.start for one in plan.touched], places(plan)) == ([0, 1, 2], [("3g.20gb", 0)])


def test_a_new_instance_leaves_the_largest_region_in_one_piece():
    plan = plan_cut(cut_as(("1g.5gb", 0)), ["1g.5gb", "1g.5gb"])
    assert largest_gap(A100, [(one.start, one.size) for one in plan.after]) == 6


def test_a_second_set_of_media_engines_costs_the_idle_instance_that_has_the_first():
    now = cut_as(("1g.6gb+me", 0), kind="A30-24GB")
    plan = plan_cut(now, ["2g.12gb+me"])
    assert [one.start for one in plan.touched] == [0]
    assert not plan_cut(cut_as(("1g.6gb+me", 0), used=(0,), kind="A30-24GB"), ["2g.12gb+me"]).fits


def test_compute_instances_that_share_a_gpu_instance_go_together():
    parts = tuple(MigInstance("1c.3g.20gb", 4, 4, f"MIG-{n}") for n in range(3))
    plan = plan_cut(CutNow("A100-40GB", A100, (*parts, instance("3g.20gb", 0)), frozenset({0})), ["4g.20gb"])
    assert not plan.fits
    plan = plan_cut(CutNow("A100-40GB", A100, parts), ["7g.40gb"])
    assert plan.touched == parts


@pytest.mark.parametrize(
    ("now", "wanted", "why"),
    [
        (cut_as(), ["3g.20gb"] * 3, "3 x 3g.20gb take 12 memory slices, and one A100-40GB has 8"),
        (cut_as(), ["4g.20gb", "4g.20gb"], "2 x 4g.20gb take 8 compute slices, and one A100-40GB has 7"),
        (cut_as(), ["1g.5gb+me", "1g.5gb+me"], "1g.5gb+me + 1g.5gb+me: one A100-40GB has media engines for a single +me instance"),
        (cut_as(), ["4g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"], "take 8 compute slices"),
        (cut_as(("1g.5gb", 0), used=(0,)), ["7g.40gb"], "7g.40gb would fit on an empty A100-40GB, but 1g.5gb in use cannot be touched"),
    ],
)
def test_what_does_not_fit_is_said_in_words(now, wanted, why):
    plan = plan_cut(now, wanted)
    assert not plan.fits
    assert why in plan.why


def test_an_unknown_profile_is_refused_with_those_there_are():
    with pytest.raises(BadInput, match=r"A100-40GB has no MIG profile '3g.71gb'") as error:
        plan_cut(cut_as(), ["3g.71gb"])
    assert "1g.5gb, 1g.5gb+me" in error.value.next_step


def test_wanted_mixes_are_read_as_people_write_them():
    assert parse_wanted("3g.71gb,1g.18gb") == ("3g.71gb", "1g.18gb")
    assert parse_wanted("2x1G.5GB, 1g.5gb+me") == ("1g.5gb", "1g.5gb", "1g.5gb+me")
    for wrong in ("", "3g", "3g.20gb,,", "half", "99x1g.5gb", "1g.5gb;rm"):
        with pytest.raises(BadInput):
            parse_wanted(wrong)


def test_a_cut_in_words_counts():
    assert cut_words(["1g.5gb", "3g.20gb", "1g.5gb"]) == "3g.20gb + 2 x 1g.5gb"
    assert cut_words([]) == "nothing"
