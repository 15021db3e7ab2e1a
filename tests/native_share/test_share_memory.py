"""How long each kind of memory counts: pools, handles and their mappings, graphs, contexts. Known trouble of such libraries, by name."""
import sys

import pytest
from share_scene import CONTEXT_BYTES, MIB, Box

from fake_cuda import Card

pytestmark = pytest.mark.slow  # each is quick; all of them are not

SHARE = 1024 * MIB
FREE = SHARE - CONTEXT_BYTES


def test_pool_memory_is_counted_while_the_pool_holds_it(box: Box) -> None:
    with box.client() as client:
        client.do("begin 0", f"take async {512 * MIB}")
        assert client.info()[0] == FREE - 512 * MIB
        client.do("give")  # freed into the pool, not to the card
        assert client.info()[0] == FREE - 512 * MIB
        assert box.cuda.now() == CONTEXT_BYTES + 512 * MIB
        client.do("sync")  # here the pool lets go of it
        assert client.info()[0] == FREE
        assert box.cuda.now() == CONTEXT_BYTES


def test_another_process_gets_what_a_pool_let_go_of(box: Box) -> None:
    with box.client() as one, box.client() as two:
        one.do("begin 0", f"take async {600 * MIB}", "give")
        two.do("begin 0")
        assert two.ask(f"take plain {600 * MIB}") == "2"
        one.do("sync")
        two.do(f"take plain {600 * MIB}")


def test_a_pool_reuses_what_it_has_though_the_share_is_full(box: Box) -> None:
    with box.client() as client:
        client.do("begin 0", f"take async {960 * MIB}", "give", f"take async {960 * MIB}")
        assert client.ask(f"take async {64 * MIB}") == "2"
        client.do("give", f"take plain {32 * MIB}", "sync", f"take plain {900 * MIB}")
    assert box.cuda.peak() <= SHARE


@pytest.mark.parametrize("kind", ["async", "plain", "create", "node"])
def test_what_a_pool_keeps_unused_is_given_up_before_anything_is_refused(box: Box, kind: str) -> None:
    with box.client() as client:
        client.do("begin 0", f"take pool {600 * MIB}", "give", f"take {kind} {600 * MIB}")
    assert box.cuda.peak() <= SHARE


def test_small_pieces_of_a_pool_are_charged_by_its_blocks(box: Box) -> None:
    with box.client() as client:
        client.do("begin 0", *[f"take async {MIB}"] * 33)
        assert client.info()[0] == FREE - 64 * MIB
        assert box.cuda.now() == CONTEXT_BYTES + 64 * MIB


def test_at_the_edge_a_small_piece_comes_out_of_a_block_that_is_there(box: Box) -> None:
    with box.client() as client:
        client.do("begin 0", f"take async {MIB}", f"take plain {FREE - 40 * MIB}", f"take async {MIB}")
        assert client.ask(f"take async {40 * MIB}") == "2"
    assert box.cuda.peak() <= SHARE


def test_a_pool_that_grows_by_more_than_thought_is_undone(box: Box) -> None:
    with box.client(FAKE_CUDA_POOL_STEP=str(256 * MIB)) as client:
        client.do("begin 0", f"take plain {FREE - 100 * MIB}")
        assert client.ask(f"take async {32 * MIB}") == "2"
        assert client.info()[0] == 100 * MIB
        assert box.cuda.now() == SHARE - 100 * MIB


def test_what_outlives_its_pool_stays_counted_until_it_is_freed(box: Box) -> None:
    with box.client() as client:
        client.do("begin 0", f"take pool {256 * MIB}", f"take pool {128 * MIB}", "give", "unpool")
        assert client.info()[0] == FREE - 256 * MIB
        client.do("give")
        assert client.info()[0] == FREE


def test_cu_mem_create_needs_no_current_context(box: Box) -> None:
    with box.client() as client:
        client.do("init 0")
        assert client.ask(f"fill create {64 * MIB}") == "16 2"
    assert box.cuda.peak() == SHARE


def test_cu_mem_create_is_charged_to_the_device_that_it_names(tmp_path: object) -> None:
    cards = (Card("GPU-aaaaaaaa-0000-0000-0000-000000000001"), Card("GPU-bbbbbbbb-0000-0000-0000-000000000002"))
    box = Box(tmp_path, cards=cards)  # type: ignore[arg-type]
    with box.client() as client:
        client.do("begin 0", "init 1", f"take create {64 * MIB}")
        assert (box.used(0), box.used(1)) == (CONTEXT_BYTES, 64 * MIB)


def test_a_released_handle_counts_while_it_is_mapped(box: Box) -> None:
    with box.client() as client:
        client.do("begin 0", f"take mapped {512 * MIB}")
        assert client.info()[0] == FREE - 512 * MIB == SHARE - box.cuda.now()
        assert client.ask(f"take create {512 * MIB}") == "2"
        client.do("give")
        assert client.info()[0] == FREE


def test_an_unmapped_handle_counts_until_it_is_released(box: Box) -> None:
    with box.client() as client:
        client.do("begin 0", f"take held {512 * MIB}", "drop")  # dropped, but mapped
        assert client.info()[0] == FREE - 512 * MIB
        client.do("retain")  # and back, by its mapping
        client.send("give")
        assert client.hear() == "0"
        assert client.info()[0] == FREE == SHARE - box.cuda.now()


def test_a_graph_takes_its_memory_once(box: Box) -> None:
    with box.client() as client:
        client.do("begin 0", f"take node {512 * MIB}")
        assert client.info()[0] == FREE - 512 * MIB
        assert client.ask(f"take node {512 * MIB}") == "2"
        client.do("give")  # the graph is gone, its memory is the device's graph memory until that is trimmed
        client.do(f"take node {900 * MIB}")
    assert box.cuda.peak() <= SHARE


def test_graphs_that_free_what_they_took_run_one_after_another(box: Box) -> None:
    with box.client() as client:
        client.do("begin 0", *[f"take scratch {600 * MIB}"] * 5)
    assert box.cuda.peak() <= SHARE


def test_a_context_is_charged_once_a_process_and_given_back_with_the_last(box: Box) -> None:
    with box.client() as client:
        client.do("init 0", "take context 0")
        assert box.used() == CONTEXT_BYTES
        client.do("take context 0", "begin 0", "begin 0")
        assert box.used() == CONTEXT_BYTES == box.cuda.now()
        client.do("give", "give", "release")
        assert box.used() == CONTEXT_BYTES
        client.do("release")
        assert (box.used(), box.cuda.now()) == (0, 0)


def test_a_context_made_by_the_drivers_private_tables_is_charged_with_the_first_memory(box: Box) -> None:
    done = box.run(sys.executable, "-c", PRIVATE)
    assert done.stdout.split() == ["0", "0", "2", str(FREE - MIB)], done.stderr
    assert box.cuda.peak() == CONTEXT_BYTES + MIB


PRIVATE = f"""
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
context, pointer, free, total = ctypes.c_void_p(), ctypes.c_ulonglong(), ctypes.c_size_t(), ctypes.c_size_t()
print(cuda.fake_private_retain(ctypes.byref(context), 0))
cuda.cuCtxSetCurrent(context)
print(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t({MIB})), cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t({FREE})))
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
print(free.value)
"""


def test_a_context_that_does_not_fit_is_refused(box: Box) -> None:
    with box.client() as one, box.client() as two:
        one.do("begin 0", f"take plain {FREE}")
        assert two.ask("begin 0") == "2"
        one.do("give")
        assert two.ask("begin 0") == "0"


@pytest.mark.parametrize("kind", ["plain", "pitch", "managed", "array", "mipmap", "heap"])
def test_destroying_a_context_gives_back_all_that_was_in_it(box: Box, kind: str) -> None:
    with box.client() as client:
        client.do("init 0", "take context 0", *[f"take {kind} {64 * MIB}"] * 3, "begin 0", f"take {kind} {128 * MIB}")
        client.do("reset")
        # Of the first context all is left, of the second nothing.
        assert box.used() == CONTEXT_BYTES + (64 * MIB if kind == "heap" else 192 * MIB)
        if kind != "heap":
            assert box.cuda.now() == box.used()


def test_a_heap_takes_the_place_of_the_one_before(box: Box) -> None:
    with box.client() as client:
        client.do("begin 0", f"take heap {256 * MIB}", f"take heap {512 * MIB}", f"take heap {128 * MIB}")
        assert client.info()[0] == FREE - 128 * MIB


@pytest.mark.parametrize("function", ["cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemAllocManaged", "cuMemCreate", "cuMemAllocAsync", "cuArrayCreate_v2", "cuMipmappedArrayCreate", "cuGraphLaunch", "cuCtxCreate_v2", "cuCtxSetLimit"])
def test_what_the_driver_refuses_is_not_charged(box: Box, function: str) -> None:
    kinds = {"cuMemAlloc_v2": "plain", "cuMemAllocPitch_v2": "pitch", "cuMemAllocManaged": "managed", "cuMemCreate": "create", "cuMemAllocAsync": "async", "cuArrayCreate_v2": "array", "cuMipmappedArrayCreate": "mipmap",
             "cuGraphLaunch": "node", "cuCtxCreate_v2": "context", "cuCtxSetLimit": "heap"}  # fmt: skip
    with box.client(FAKE_CUDA_FAIL=f"{function}=719") as client:
        client.do("begin 0")
        assert client.ask(f"take {kinds[function]} {256 * MIB}") == "719"
        assert client.info()[0] == FREE
        assert box.used() == CONTEXT_BYTES


def test_a_free_that_fails_leaves_it_counted(box: Box) -> None:
    with box.client(FAKE_CUDA_FAIL="cuMemFree_v2=719") as client:
        client.do("begin 0", f"take plain {256 * MIB}")
        assert client.ask("give") == "719"
        assert client.info()[0] == FREE - 256 * MIB


def test_a_full_card_is_out_of_memory_though_the_share_is_not(tmp_path: object) -> None:
    box = Box(tmp_path, memory_bytes=SHARE, cards=(Card(memory_bytes=256 * MIB),))  # type: ignore[arg-type]
    with box.client() as client:
        client.do("begin 0")
        assert client.ask(f"take plain {512 * MIB}") == "2"
        free, total = client.info()
        assert (free, total) == (256 * MIB - CONTEXT_BYTES, 256 * MIB)
