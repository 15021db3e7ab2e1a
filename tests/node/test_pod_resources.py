"""Which container holds which GPU, out of the kubelet's own kind of message, and out of what is no such message."""
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.node.pod_resources import MOST_BYTES, Holder, read_holders

pytestmark = pytest.mark.slow

GPU, MIG = "GPU-8c7a5e3e-4a0e-9c1d-2f3b-0123456789ab", "MIG-11111111-2222-3333-4444-555555555555"


def number(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80]) + number(value >> 7) if value > 0x7F else bytes([value])


def field(tag: int, *parts: bytes | str) -> bytes:
    content = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return number(tag << 3 | 2) + number(len(content)) + content


def pod(name: str, namespace: str, *containers: bytes) -> bytes:
    return field(1, field(1, name), field(2, namespace), *containers)


def container(name: str, *ids: str, resource: str = "nvidia.com/gpu") -> bytes:
    cpus, memory, claims = field(3, number(1), number(2)), field(4, field(1, "memory")), field(5, field(1, "claim"))
    topology = field(3, field(1, number(8), number(1)))
    return field(3, field(1, name), field(2, field(1, resource), *(field(2, one) for one in ids), topology), cpus, memory, claims)


def test_each_device_has_its_holders():
    told = pod("train-0", "ml", container("torch", GPU), container("side")) + pod("serve", "ml", container("vllm", MIG, resource="nvidia.com/mig-1g.5gb"))
    assert read_holders(told) == {GPU: {Holder("train-0", "ml", "torch")}, MIG: {Holder("serve", "ml", "vllm")}}


def test_shares_of_one_gpu_are_that_gpu_held_by_several():
    told = pod("a", "ml", container("one", f"{GPU}::0")) + pod("b", "ml", container("two", f"{GPU}::1"))
    assert read_holders(told) == {GPU: {Holder("a", "ml", "one"), Holder("b", "ml", "two")}}


def test_what_is_no_gpu_of_nvidia_is_passed_over():
    assert read_holders(pod("a", "ml", container("one", "nvidia0", "GPU-", "x" * 1000, "GPU-\n"))) == {}
    assert read_holders(b"") == {}


def test_fields_that_nobody_knows_yet_are_passed_over():
    later = field(99, "new") + number(15 << 3) + number(2**63) + number(16 << 3 | 1) + bytes(8) + number(17 << 3 | 5) + bytes(4)
    assert read_holders(later + pod("a", "ml", container("one", GPU)) + later) == {GPU: {Holder("a", "ml", "one")}}


def test_names_are_printable_whatever_the_kubelet_says():
    ((_, holders),) = read_holders(pod("a\n\u202eb", "x" * 1000, container("c", GPU))).items()
    (holder,) = holders
    assert holder.pod == "a??b"
    assert len(holder.namespace) <= 253


@pytest.mark.parametrize("text", [b"\x0a", b"\x0a\x05ab", b"\xff" * 11, b"\x0b", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x09\0\0", b"\x0a\x03\x0a\x05a"])
def test_half_a_message_is_none(text: bytes):
    with pytest.raises(ValueError, match=r"\w"):
        read_holders(text)


MESSAGES = st.recursive(st.binary(max_size=40), lambda inner: st.lists(st.tuples(st.integers(1, 6), inner), max_size=5).map(lambda parts: b"".join(field(*part) for part in parts)), max_leaves=30)


@given(st.one_of(st.binary(max_size=300), MESSAGES))
def test_no_bytes_are_too_strange(text: bytes):
    try:
        found = read_holders(text)
    except ValueError:
        return
    assert all(len(device) <= 128 and holders for device, holders in found.items())


def test_depth_costs_nothing():
    nested = container("c", GPU)
    for _ in range(2000):
        nested = field(1, nested)
    assert read_holders(nested) == {}
    for _ in range(2000):
        nested = field(3, nested)
    assert read_holders(nested) == {}


@pytest.mark.parametrize("unit", [pod("a", "b", container("c", GPU)), field(1), field(9, "x"), number(9 << 3) + b"\1"])
def test_the_largest_answer_is_read_in_seconds(unit: bytes):
    began = time.process_time()
    read_holders(unit * (MOST_BYTES // len(unit)))
    assert time.process_time() - began < 10
