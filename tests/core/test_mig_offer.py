"""What a cut still takes, and what a change would cost."""
from gpufairy.core.mig import MigInstance
from gpufairy.core.mig_offer import offers
from gpufairy.core.mig_plan import CutNow
from gpufairy.devices.mig_tables import mig_tables

TABLE = mig_tables()["A100-40GB"]


def told(*parts: tuple[str, int], used: tuple[int, ...] = ()) -> dict[str, tuple[int, bool, int]]:
    instances = tuple(MigInstance(name, start, TABLE.profile(name).size, f"MIG-{start}") for name, start in parts)
    return {one.profile: (one.free, one.fits, one.touched) for one in offers(CutNow("A100-40GB", TABLE, instances, frozenset(used)))}


def test_an_empty_gpu_takes_any_profile():
    assert set(told().values()) == {(0, True, 0)}


def test_what_fits_beside_costs_nothing_and_the_rest_costs_idle_instances():
    found = told(("1g.5gb", 0), ("1g.5gb", 1), ("1g.5gb", 2), ("3g.20gb", 4), used=(2, 4))
    assert found["1g.5gb"] == (2, True, 0)
    assert found["2g.10gb"] == (0, True, 2)
    assert found["7g.40gb"] == (0, False, 0)


def test_one_more_is_beside_the_idle_ones_of_its_own_profile():
    assert told(("3g.20gb", 0), ("3g.20gb", 4))["3g.20gb"] == (2, False, 0)
    assert told(("3g.20gb", 0), ("1g.5gb", 4))["3g.20gb"] == (1, True, 1)
