"""The tables of MIG profiles hang together."""
import itertools

import pytest

from gpufairy.core.errors import BadInput
from gpufairy.core.mig_layout import lay_out
from gpufairy.devices.kinds import MEMORY_MIB, MIB
from gpufairy.devices.mig_tables import mig_tables

KINDS = list(mig_tables())


def test_the_nine_kinds_are_there():
    assert len(KINDS) == 9
    assert set(KINDS) <= set(MEMORY_MIB)


@pytest.mark.parametrize("kind", KINDS)
def test_every_profile_lies_within_its_gpu(kind: str):
    table = mig_tables()[kind]
    for profile in table.profiles:
        assert 1 <= profile.compute_slices <= table.compute_slices
        assert profile.starts
        assert all(0 <= start <= table.memory_slices - profile.size for start in profile.starts)
        assert profile.memory_bytes is None or 0 < profile.memory_bytes <= MEMORY_MIB[kind] * MIB


@pytest.mark.parametrize("kind", KINDS)
def test_no_cut_has_more_compute_than_the_gpu(kind: str):
    """Memory slices that do not overlap are rule enough: the compute slices then never run out."""
    table = mig_tables()[kind]
    plain = [profile for profile in table.profiles if not profile.name.endswith("+me")]
    for count in (1, 2, 3, 4):
        for chosen in itertools.combinations_with_replacement(plain, count):
            try:
                lay_out(table, kind, [profile.name for profile in chosen])
            except BadInput:
                continue
            assert sum(profile.compute_slices for profile in chosen) <= table.compute_slices


def test_memory_that_nobody_has_seen_is_not_known():
    assert mig_tables()["GB200-186GB"].profile("1g.23gb").memory_bytes is None
    assert mig_tables()["A100-40GB"].profile("1g.5gb").memory_bytes == int(4.75 * 2**30)


def test_a_cut_beside_what_is_taken_keeps_clear_of_it():
    table = mig_tables()["H200-141GB"]
    ((profile, start),) = lay_out(table, "H200-141GB", ["3g.71gb"], taken=[(0, 1)])
    assert (profile.name, start) == ("3g.71gb", 4)
