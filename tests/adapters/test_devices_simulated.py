"""What can be written after --simulate."""
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import GIB
from gpufairy.core.errors import BadInput
from gpufairy.devices.kinds import ALIASES, MEMORY_MIB
from gpufairy.devices.mig_tables import mig_tables
from gpufairy.devices.simulated import parse_simulate


def test_counts_and_kinds_make_gpus_in_order():
    gpus = parse_simulate("2xA100-40GB, 1xH200")
    assert [(gpu.index, gpu.kind) for gpu in gpus] == [(0, "A100-40GB"), (1, "A100-40GB"), (2, "H200-141GB")]
    assert gpus[0].memory_bytes == 40 * GIB
    assert all(gpu.simulated and gpu.mig is None for gpu in gpus)


def test_the_same_text_makes_the_same_gpus_and_no_two_are_alike():
    gpus = parse_simulate("3xT4,2xA30:mig=2g.12gb+2g.12gb")
    assert gpus == parse_simulate("3xT4,2xA30:mig=2g.12gb+2g.12gb")
    uuids = [gpu.uuid for gpu in gpus] + [cut.uuid for gpu in gpus for cut in gpu.instances or ()]
    assert len(set(uuids)) == len(uuids) == 9
    assert all(uuid.startswith(("GPU-simulated-", "MIG-simulated-")) for uuid in uuids)


def test_mig_mode_alone_is_cut_on_demand():
    (gpu,) = parse_simulate("A100:mig")
    assert gpu.mig == mig_tables()["A100-40GB"]
    assert gpu.instances is None


def test_a_cut_is_laid_out_in_the_order_asked():
    (gpu,) = parse_simulate("1xA100-40GB:mig=1g.5gb+2g.10gb+3g.20gb")
    assert [(cut.profile, cut.start, cut.size) for cut in gpu.instances] == [("1g.5gb", 6, 1), ("2g.10gb", 4, 2), ("3g.20gb", 0, 4)]


def test_a_profile_with_media_engines_keeps_its_name():
    (gpu,) = parse_simulate("A100:mig=1g.5gb+me+1g.5gb")
    assert [cut.profile for cut in gpu.instances] == ["1g.5gb+me", "1g.5gb"]


@pytest.mark.parametrize("kind", [*MEMORY_MIB, *ALIASES])
def test_every_kind_can_be_written_small_or_large(kind: str):
    assert parse_simulate(f"1x{kind.lower()}")[0].kind == parse_simulate(kind)[0].kind


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "no count and kind"), ("4x", "no count and kind"), ("A100:fast", "no count and kind"), ("-1xA100", "no count and kind"),
        ("0xA100", "between 1 and 64"), ("65xA100", "between 1 and 64"), (",".join(["64xT4"] * 17), "more than 1024"),
        ("1xH20", "no kind of GPU"), ("T4:mig", "cannot be cut"), ("A100:mig=9g.1gb", "has no MIG profile"),
        ("A100:mig=3g.20gb+3g.20gb+1g.5gb", "take 9 memory slices"), ("A100:mig=4g.20gb+4g.20gb", "no arrangement"),
        ("A100:mig=1g.5gb+me+1g.5gb+me", "a single +me instance"), ("A100:mig=" + "+".join(["1g.5gb"] * 400), "do not fit"),
        ("x" * 5000, "too many"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_words(text: str, detail: str):
    with pytest.raises(BadInput) as caught:
        parse_simulate(text)
    assert detail in caught.value.detail
    assert caught.value.next_step


def test_an_unknown_kind_is_told_the_nearest_ones():
    with pytest.raises(BadInput) as caught:
        parse_simulate("1xRTX4091")
    assert "RTX4090" in caught.value.next_step.split("?")[0]


@given(st.text(max_size=60) | st.from_regex(r"[0-9]{0,3}x?[A-Z0-9]{1,5}(:mig(=[0-9a-z.+]{0,20})?)?", fullmatch=True))
def test_any_text_gives_gpus_or_words(text: str):
    with contextlib.suppress(BadInput):
        assert parse_simulate(text)
