"""What programs are shown: the share as the card's size, the container's use as its use, whatever order, kind or nonsense there is."""
import json
import struct
import sys
from pathlib import Path

import pytest
from share_scene import CONTEXT_BYTES, GPUS, MIB, SLOTS, Box, gpu_line

from fake_cuda import Card
from fake_nvml.build import FakeNvml
from fake_nvml.machine import FakeGpu, FakeInstance, FakeMachine

pytestmark = pytest.mark.slow  # each is quick; all of them are not

SHARE = 1024 * MIB
RED, BLUE = Card("GPU-aaaaaaaa-1111-2222-3333-00000000000a"), Card("GPU-bbbbbbbb-1111-2222-3333-00000000000b")


def test_a_device_is_as_large_as_the_share(box: Box) -> None:
    with box.client() as client:
        client.do("begin 0")
        assert client.ask("total") == f"0 {SHARE}"
        assert client.info() == (SHARE - CONTEXT_BYTES, SHARE)


def test_a_share_larger_than_the_card_shows_the_card(tmp_path: Path) -> None:
    with Box(tmp_path, memory_bytes=1 << 50).client() as client:
        client.do("begin 0")
        assert client.ask("total") == f"0 {8 << 30}"
        assert client.info() == ((8 << 30) - CONTEXT_BYTES, 8 << 30)


def test_free_is_what_the_card_really_has_if_that_is_less(tmp_path: Path) -> None:
    box = Box(tmp_path)
    with box.client(LD_PRELOAD="") as other, box.client() as client:
        other.do("begin 0", f"take plain {(8 << 30) - 300 * MIB}")
        client.do("begin 0")
        assert client.info() == (300 * MIB - 2 * CONTEXT_BYTES, SHARE)


@pytest.mark.parametrize("number", [SHARE * 2, 2**64 - 1, 2**63])
def test_totals_never_underflow_whatever_the_ledger_says(box: Box, number: int) -> None:
    """Known elsewhere as cards of 17 TB."""
    with box.client() as client:
        client.do("begin 0")
        with box.ledger.open("rb+") as file:
            file.seek(4096 + 8 * GPUS * SLOTS)
            file.write(struct.pack("<Q", number))
        assert client.info() == (0, SHARE)
        assert client.ask(f"take plain {MIB}") == "2"
        client.do("release")  # takes away what is not there: stops at zero
        assert box.used() in (0, number - CONTEXT_BYTES)


@pytest.mark.parametrize(("visible", "seen"), [("0,1", (0, 1)), ("1,0", (1, 0)), (f"{BLUE.uuid},{RED.uuid}", (1, 0)), ("1", (1,)), (BLUE.uuid[:12], (1,)), ("0,9,1", (0,))])
def test_the_order_of_visible_devices_changes_no_limit(tmp_path: Path, visible: str, seen: tuple[int, ...]) -> None:
    box = Box(tmp_path, cards=(RED, BLUE))
    box.write_limits(gpu_line(BLUE, 200 * MIB), gpu_line(RED, 100 * MIB))
    for device, card in enumerate(seen):
        limit = (100 * MIB, 200 * MIB)[card]
        with box.client(CUDA_VISIBLE_DEVICES=visible) as client:
            client.do(f"begin {device}")
            assert client.ask("total") == f"0 {limit}"
            assert client.ask(f"take plain {limit}") == "2"
            client.do(f"take plain {limit - CONTEXT_BYTES}")
            assert box.used(1 - card) == limit


def test_a_mig_instance_is_held_to_its_own_limit(tmp_path: Path) -> None:
    box = Box(tmp_path, memory_bytes=100 * MIB, cards=(Card("MIG-cccccccc-1111-2222-3333-00000000000c"),))
    with box.client() as client:
        client.do("begin 0")
        assert client.ask("total") == f"0 {100 * MIB}"


def test_without_limits_or_ledger_nothing_is_free(box: Box) -> None:
    box.ledger.unlink()
    with box.client() as client:
        client.do("init 0")
        assert client.ask("total") == f"0 {SHARE}"
    box.limits.unlink()
    with box.client() as client:
        client.do("init 0")
        assert client.ask("total") == "0 0"


NVML = """
import ctypes, json, sys
import pynvml
pynvml.nvmlInit()
rows = []
for index in range(pynvml.nvmlDeviceGetCount()):
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index)]
    try:
        handles.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handles[0], 0))
    except pynvml.NVMLError:
        pass
    for handle in handles:
        one, two = pynvml.nvmlDeviceGetMemoryInfo(handle), pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        rows.append([[one.total, one.free, one.used], [two.total, two.free, two.used, two.reserved]])
print(json.dumps(rows))
"""


def nvml(box: Box, machine: FakeMachine) -> list[list[list[int]]]:
    fake = FakeNvml(box.folder)
    fake.write(machine)
    done = box.run(sys.executable, "-c", NVML, LD_LIBRARY_PATH=str(fake.library.parent), FAIRY_FAKE_NVML=str(fake.script))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nvml_shows_the_share_of_ours_and_others_as_they_are(box: Box) -> None:
    mine = box.cuda.cards[0].uuid
    machine = FakeMachine(gpus=(FakeGpu(uuid=mine, memory_mib=8192, used_mib=5000), FakeGpu(uuid=RED.uuid, memory_mib=4096, used_mib=100)))
    with box.client() as client:
        client.do("begin 0", f"take plain {200 * MIB}")
        ours, other = nvml(box, machine)
        used = CONTEXT_BYTES + 200 * MIB
        assert ours == [[SHARE, SHARE - used, used], [SHARE, SHARE - used, used, 0]]
        assert other[0][0] == 4096 * MIB
    assert nvml(box, machine)[0][0] == [SHARE, SHARE, 0]  # it is gone, and nobody else had to look


def test_nvml_shows_a_mig_instances_share(tmp_path: Path) -> None:
    instance = "MIG-dddddddd-1111-2222-3333-00000000000d"
    box = Box(tmp_path, memory_bytes=100 * MIB, cards=(Card(instance),))
    gpu = FakeGpu(uuid=RED.uuid, memory_mib=40960, mig=True, instances=(FakeInstance(gi=1, uuid=instance, memory_mib=4864, used_mib=10),))
    rows = nvml(box, FakeMachine(gpus=(gpu,)))
    assert rows[0][0][0] == 40960 * MIB  # the whole card is not ours to change
    assert rows[1][0] == [100 * MIB, 100 * MIB, 0]


def test_nvml_without_limits_shows_nothing_free(box: Box) -> None:
    box.limits.unlink()
    assert nvml(box, FakeMachine(gpus=(FakeGpu(uuid=RED.uuid, memory_mib=8192),))) == [[[0, 0, 0], [0, 0, 0, 0]]]
