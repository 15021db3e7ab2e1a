"""The isolation probe on the stub driver: without the share library it finds the ways through, with it they are shut."""
import json
import subprocess
import time

import pytest
from probe_scene import GIB, GPU, OTHER, SHARE, ProbeScene

from daemons import needs
from fake_cuda import Card, FakeCuda
from fake_nvml import FakeGpu, FakeInstance, FakeMachine
from gpufairy.core.node import Sharing
from gpufairy.core.tried import ENOUGH_OVER_BYTES
from gpufairy.devices import probe_children
from gpufairy.devices.probe_children import Surroundings, ask
from gpufairy.devices.probe_cuda import Refused
from gpufairy.devices.probe_memory import MEMORY_WAYS, PAGE, take
from gpufairy.devices.probe_sm import MOST_IDS, used
from gpufairy.devices.probe_way import Task

pytestmark = pytest.mark.slow

# No library of ours is asked there. On a machine with MPS its own limit holds each such process; the stub has none.
PAST_THE_LIBRARY = {
    "cuMemAlloc by its address in the file", "LD_PRELOAD of the C library", "a changed loader", "a changed loader, 4 processes",
    "a changed loader, MPS unset", "a changed loader, MPS limits of one's own", "a changed loader, another MPS pipe folder",
}  # fmt: skip
# The stub frees what a graph has allocated when it is trimmed, as no real driver does: what was got there is not held any more.
NOT_LIKE_A_DRIVER = {"graph memory nodes"}
HELD_BY_MPS = {"a static binary with a loader in memory"}  # which the stub has not
STUB_ROUNDS_BYTES = 64 * 2**20  # its contexts, and pools that grow in steps
# Crashes with thread-local storage on some versions of glibc; libraries without versions; the stub's machine comes by environment.
MAY_BE_UNTRIED = {"a static binary", "cuMemAlloc by dlvsym", "environment cleared"}


@pytest.fixture
def scene(tmp_path):
    return ProbeScene(tmp_path)


def of_memory(attempts):
    return {way: attempt for way, attempt in attempts.items() if attempt.of == "memory" and way not in MAY_BE_UNTRIED}


def test_without_the_library_every_way_gets_through_and_is_found(scene):
    found = of_memory(scene.attempts())
    assert {attempt.verdict for attempt in found.values()} == {"failed"}, found
    assert found.keys() >= {*MEMORY_WAYS, "a second process", "a forked child", "4 processes at once"} - MAY_BE_UNTRIED - PAST_THE_LIBRARY
    assert found["cuMemGetInfo tells"].found == "8 GiB, its share is 4 GiB"


def test_no_more_than_a_little_over_the_share_is_ever_taken_and_all_is_given_back(scene):
    scene.attempts()
    assert SHARE < scene.cuda.peak() <= SHARE + ENOUGH_OVER_BYTES + STUB_ROUNDS_BYTES
    assert scene.cuda.now() == 0


def test_shared_in_turns_the_same_is_only_accounted(scene):
    assert {attempt.verdict for attempt in of_memory(scene.attempts(sharing=Sharing.TIME)).values()} == {"accounted"}


@pytest.mark.system
def test_with_the_library_what_asks_it_is_refused(scene):
    needs("unshare", package="util-linux")
    attempts = scene.attempts(before=scene.with_library())
    found = of_memory(attempts)
    through = {way: attempt.found for way, attempt in found.items() if attempt.verdict != "enforced"}
    assert through.keys() <= NOT_LIKE_A_DRIVER | HELD_BY_MPS, through
    evading = {way: attempt for way, attempt in attempts.items() if attempt.of == "evasion"}
    assert {way for way, attempt in evading.items() if attempt.verdict == "accounted"} == PAST_THE_LIBRARY, evading
    assert found["nvmlDeviceGetMemoryInfo tells"].found == "4 GiB, its share is 4 GiB"


@pytest.mark.system
def test_with_the_library_one_still_gets_ones_own_share(scene):
    needs("unshare", package="util-linux")
    found = scene.attempts("--own-share", before=scene.with_library())["its own share"]
    assert (found.verdict, found.found) == ("enforced", "had 3.8 GiB of its 4 GiB")


@pytest.mark.system
def test_a_share_that_is_shut_altogether_is_not_taken_for_enforced(scene):
    needs("unshare", package="util-linux")
    found = scene.attempts("--own-share", before=scene.with_library(limits=""))["its own share"]
    assert found.verdict in ("failed", "untried"), found


def test_what_it_holds_it_holds_until_its_input_ends(scene):
    holding = subprocess.Popen(scene.command("--hold", str(GIB)), env=scene.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with holding:
        assert json.loads(holding.stdout.readline()) == {"held_bytes": GIB, "error": ""}
        assert scene.cuda.now() >= GIB
        holding.stdin.close()
        assert json.loads(holding.stdout.readline()) == {"done": True}
    assert scene.cuda.now() == 0


def test_other_gpus_that_it_reaches_are_named(scene, tmp_path):
    (tmp_path / "two").mkdir()
    scene.cuda = FakeCuda(tmp_path / "two", (Card(GPU, 2 * SHARE), Card(OTHER, 2 * SHARE)))
    scene.nvml.write(FakeMachine((FakeGpu(uuid=GPU), FakeGpu(uuid=OTHER))))
    found = scene.attempts("--other", OTHER)
    assert found["GPUs that CUDA lists"].found == f"reached {OTHER.removeprefix('GPU-')}"
    assert found["GPUs that NVML lists"].found == found["NVML of another GPU by its UUID"].found == f"reached {OTHER}"


def test_the_gpu_itself_is_told(scene):
    assert scene.said()[0] == {"facts": {"driver": "580.159.04", "whole_sms": 108, "instance_sms": None}}


def test_of_a_mig_instance_its_own_multiprocessors_are_told(scene):
    instance = FakeInstance(gi=1, profile="3g.20gb", size=4, uuid="MIG-11111111-2222-3333-4444-555555555555")
    scene.nvml.write(FakeMachine((FakeGpu(uuid=GPU, mig=True, instances=(instance,)),)))
    assert scene.said("--device", instance.uuid)[0]["facts"]["instance_sms"] == 42


def test_no_driver_at_all_is_said_and_nothing_is_tried(scene):
    (line,) = scene.said(env={"LD_LIBRARY_PATH": ""})
    assert "there is no libcuda.so.1" in line["error"]


def test_a_way_that_hangs_is_given_up_and_its_process_is_gone(scene, monkeypatch):
    monkeypatch.setattr(probe_children, "GOODBYE_S", 0.2)
    task = Task("cuMemAlloc", str(scene.cuda.library), GPU, GPU, enough_bytes=SHARE)
    began = time.monotonic()
    answer = ask(task, Surroundings({**scene.env, "FAKE_CUDA_STOP": "cuInit:before"}), limit_s=1.0)
    assert answer == {"error": "did not answer in 1 s"}
    assert time.monotonic() - began < 10
    assert scene.cuda.now() == 0


def test_a_refusal_that_is_no_lack_of_memory_is_not_taken_for_a_limit(scene):
    task = Task("cuMemAlloc", str(scene.cuda.library), GPU, GPU, enough_bytes=SHARE)
    answer = ask(task, Surroundings({**scene.env, "FAKE_CUDA_FAIL": "cuMemAlloc_v2=1"}))
    assert answer == {"error": "cuMemAlloc: CUDA error 1"}


def test_whoever_is_not_let_in_has_got_nothing(scene):
    task = Task("cuMemAlloc", str(scene.cuda.library), GPU, GPU, enough_bytes=SHARE)
    answer = ask(task, Surroundings({**scene.env, "FAKE_CUDA_FAIL": "cuInit=46"}))
    assert answer == {"got_bytes": 0, "words": "cuInit: CUDA error 46 (the device is not available)"}


def test_taking_finds_the_limit_to_the_page_and_stops_where_it_has_enough():
    def limited(limit):
        held = 0

        def allocate(size):
            nonlocal held
            if held + size > limit:
                raise Refused("cuMemAlloc", 2)
            held += size
            return size

        return allocate

    for limit in (0, PAGE, 7 * PAGE, 10 * GIB + 3 * PAGE, 71 * GIB):
        assert take(limited(limit), 100 * GIB) == limit
    assert take(limited(100 * GIB), 10 * GIB + 1) == 10 * GIB + PAGE


class CountingDriver:
    """Runs no kernel: says that it ran on these multiprocessors."""

    def __init__(self, ids):
        self.ids, self.called = ids, []

    def call(self, name, *arguments):
        self.called.append(name)
        if name == "cuMemcpyDtoH_v2":
            marks = arguments[0]
            assert len(marks) == MOST_IDS
            for number in self.ids:
                marks[number] = 1


def test_multiprocessors_are_counted_by_those_that_ran_something():
    driver = CountingDriver([0, 2, 4, 131])
    assert used(driver) == 4
    assert driver.called.index("cuLaunchKernel") < driver.called.index("cuCtxSynchronize") < driver.called.index("cuMemcpyDtoH_v2")
