"""The hooks that client.c does not call: older and newer ABIs of the same functions, rare ways to memory. Each by its own symbol."""
import json
import sys
import textwrap
from pathlib import Path

import pytest
from share_scene import CONTEXT_BYTES, MIB, SHARED_NAMES, Box

pytestmark = pytest.mark.slow  # each is quick; all of them are not

SHARE = 1024 * MIB
BEGIN = """
import ctypes as c, json
cuda = c.CDLL("libcuda.so.1")
MIB = 1 << 20

class Place(c.Structure):
    _fields_ = [("kind", c.c_int), ("id", c.c_int)]

class Alloc(c.Structure):
    _fields_ = [("type", c.c_int), ("handles", c.c_int), ("where", Place), ("security", c.c_void_p), ("most", c.c_size_t), ("rest", c.c_ubyte * 56),
                ("access", c.c_void_p), ("count", c.c_size_t), ("bytes", c.c_size_t), ("pointer", c.c_ulonglong)]

class Params(c.Structure):
    _fields_ = [("type", c.c_int), ("reserved", c.c_int * 3), ("alloc", Alloc), ("rest", c.c_ubyte * (232 - c.sizeof(Alloc))), ("last", c.c_longlong)]

def begin():
    context = c.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(c.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0

def free():
    left, total = c.c_size_t(), c.c_size_t()
    assert cuda.cuMemGetInfo_v2(c.byref(left), c.byref(total)) == 0
    return left.value // MIB

def graph_of(size, add="cuGraphAddMemAllocNode"):
    graph, node = c.c_void_p(), c.c_void_p()
    assert cuda.cuGraphCreate(c.byref(graph), 0) == 0
    alloc = Alloc(type=1, where=Place(1, 0), bytes=size)
    params = Params(type=10, alloc=alloc)
    none = c.c_void_p()
    if add == "cuGraphAddMemAllocNode":
        code = cuda.cuGraphAddMemAllocNode(c.byref(node), graph, none, c.c_size_t(0), c.byref(alloc))
    elif add == "cuGraphAddNode":
        code = cuda.cuGraphAddNode(c.byref(node), graph, none, c.c_size_t(0), c.byref(params))
    else:
        code = cuda[add](c.byref(node), graph, none, none, c.c_size_t(0), c.byref(params))
    return code, graph

said = []
say = said.append
"""


def said(box: Box, script: str, **env: str) -> object:
    done = box.run(sys.executable, "-c", BEGIN + textwrap.dedent(script) + "\nprint(json.dumps(said))", **env)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


def test_memory_of_32_bits(box: Box) -> None:
    assert said(box, """
        begin()
        pointer, pitch, left, total = c.c_uint(), c.c_uint(), c.c_uint(), c.c_uint()
        say([cuda.cuMemAlloc(c.byref(pointer), 512 * MIB), free(), cuda.cuMemAlloc(c.byref(pointer), 600 * MIB), cuda.cuMemFree(pointer), free()])
        say([cuda.cuMemAllocPitch(c.byref(pointer), c.byref(pitch), 512 * 1024, 1024, 4), free(), cuda.cuMemFree(pointer), free()])
        say([cuda.cuMemGetInfo(c.byref(left), c.byref(total)), left.value // MIB, total.value // MIB, cuda.cuDeviceTotalMem(c.byref(total), 0), total.value // MIB])
    """) == [[0, 496, 2, 0, 1008], [0, 496, 0, 1008], [0, 1008, 1024, 0, 1024]]  # fmt: skip


def test_arrays_of_32_bits_and_what_has_no_memory_yet(box: Box) -> None:
    assert said(box, """
        begin()
        array = c.c_ulonglong()
        say([cuda.cuArrayCreate(c.byref(array), (c.c_uint * 4)(65536, 1024, 0x20, 4)), cuda.cuArrayCreate(c.byref(array), (c.c_uint * 4)(32768, 1024, 0x20, 4)), free(),
             cuda.cuArrayDestroy(array), free()])
        say([cuda.cuArray3DCreate(c.byref(array), (c.c_uint * 6)(65536, 1024, 8, 1, 1, 0)), free(), cuda.cuArrayDestroy(array), free()])
        class Shape(c.Structure):
            _fields_ = [("width", c.c_size_t), ("height", c.c_size_t), ("depth", c.c_size_t), ("format", c.c_int), ("channels", c.c_uint), ("flags", c.c_uint)]
        for flags in (0x40, 0x80):
            say([cuda.cuArray3DCreate_v2(c.byref(array), c.byref(Shape(1 << 20, 1 << 20, 0, 0x20, 4, flags))), free()])
        say([cuda.cuMipmappedArrayCreate(c.byref(array), c.byref(Shape(32768, 8192, 0, 1, 1, 0)), 5), cuda.cuMipmappedArrayDestroy(array), free()])
        say([cuda.cuArray3DCreate_v2(c.byref(array), c.byref(Shape(2**63, 2**63, 2**63, 0x20, 4, 0))), cuda.cuArray3DCreate_v2(c.byref(array), c.byref(Shape(4096, 65536, 0, 0xb0, 3, 0)))])
    """) == [[2, 0, 496, 0, 1008], [0, 496, 0, 1008], [0, 1008], [0, 1008], [0, 0, 1008], [2, 2]]  # fmt: skip


def test_every_abi_of_creating_a_context(box: Box) -> None:
    assert said(box, """
        cuda.cuInit(0)
        made = [c.c_void_p() for _ in range(4)]
        say([cuda.cuCtxCreate(c.byref(made[0]), 0, 0), cuda.cuCtxCreate_v2(c.byref(made[1]), 0, 0), cuda.cuCtxCreate_v3(c.byref(made[2]), None, 0, 0, 0),
             cuda.cuCtxCreate_v4(c.byref(made[3]), None, 0, 0), free()])
        say([cuda.cuCtxDestroy(made[0])] + [cuda.cuCtxDestroy_v2(one) for one in made[1:]])
    """) == [[0, 0, 0, 0, 1008], [0, 0, 0, 0]]  # fmt: skip
    assert box.used() == 0


@pytest.mark.parametrize("add", ["cuGraphAddMemAllocNode", "cuGraphAddNode", "cuGraphAddNode_v2", "cuGraphAddNode_v3"])
def test_every_abi_of_adding_a_node(box: Box, add: str) -> None:
    assert said(box, f"begin()\nsay([graph_of(900 * MIB, {add!r})[0], graph_of(1010 * MIB, {add!r})[0], free()])") == [[0, 2, 1008]]
    assert box.cuda.peak() == CONTEXT_BYTES  # a node takes nothing before it is launched


@pytest.mark.parametrize("launch", ["cuGraphLaunch", "cuGraphLaunch_ptsz", "cuGraphUpload", "cuGraphUpload_ptsz"])
@pytest.mark.parametrize("make", ["cuGraphInstantiate", "cuGraphInstantiate_v2", "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithParams", "cuGraphInstantiateWithParams_ptsz"])
def test_every_abi_of_instantiating_and_launching(box: Box, make: str, launch: str) -> None:
    arguments = {"cuGraphInstantiate": "None, None, c.c_size_t(0)", "cuGraphInstantiate_v2": "None, None, c.c_size_t(0)", "cuGraphInstantiateWithFlags": "c.c_ulonglong(0)"}.get(make, "None")
    assert said(box, f"""
        begin()
        one, two = c.c_void_p(), c.c_void_p()
        say([cuda.{make}(c.byref(one), graph_of(600 * MIB)[1], {arguments}), cuda.{make}(c.byref(two), graph_of(600 * MIB)[1], {arguments}), free()])
        say([cuda.{launch}(one, None), free(), cuda.{launch}(one, None), free(), cuda.{launch}(two, None), cuda.cuGraphExecDestroy(one), cuda.{launch}(two, None), free()])
    """) == [[0, 0, 1008], [0, 408, 0, 408, 2, 0, 0, 408]]  # fmt: skip
    assert box.cuda.peak() == CONTEXT_BYTES + 600 * MIB


def test_a_child_graphs_memory_is_its_parents(box: Box) -> None:
    assert said(box, """
        begin()
        graph, node, exec = c.c_void_p(), c.c_void_p(), c.c_void_p()
        cuda.cuGraphCreate(c.byref(graph), 0)
        for _ in range(2):
            say(cuda.cuGraphAddChildGraphNode(c.byref(node), graph, None, c.c_size_t(0), graph_of(600 * MIB)[1]))
        say([cuda.cuGraphInstantiateWithFlags(c.byref(exec), graph, c.c_ulonglong(0)), cuda.cuGraphLaunch(exec, None)])
    """) == [0, 0, [0, 2]]  # fmt: skip


@pytest.mark.parametrize("wait", ["cuCtxSynchronize()", "cuStreamSynchronize(None)", "cuStreamSynchronize_ptsz(None)", "cuEventSynchronize(None)"])
def test_every_wait_sees_what_the_pools_let_go_of(box: Box, wait: str) -> None:
    assert said(box, f"""
        begin()
        pointer = c.c_ulonglong()
        say([cuda.cuMemAllocAsync_ptsz(c.byref(pointer), c.c_size_t(512 * MIB), None), cuda.cuMemFreeAsync_ptsz(pointer, None), free(), cuda.{wait}, free()])
    """) == [[0, 0, 496, 0, 1008]]  # fmt: skip


@pytest.mark.parametrize("which", ["cuMemGetDefaultMemPool", "cuMemGetMemPool"])
def test_pools_by_location_managed_ones_too(box: Box, which: str) -> None:
    assert said(box, f"""
        begin()
        pool, pointer = c.c_void_p(), c.c_ulonglong()
        for kind in (1, 2):
            say([cuda.{which}(c.byref(pool), c.byref(Place(1, 0)), kind), cuda.cuMemAllocFromPoolAsync(c.byref(pointer), c.c_size_t(512 * MIB), pool, None), free()])
        say(cuda.{which}(c.byref(pool), c.byref(Place(2, 0)), 1))
    """) == [[0, 0, 496], [0, 2, 496], 1]  # fmt: skip


@pytest.mark.parametrize("map_array", ["cuMemMapArrayAsync", "cuMemMapArrayAsync_ptsz"])
def test_memory_mapped_into_a_sparse_array_stays_counted(box: Box, map_array: str) -> None:
    assert said(box, f"""
        class Mapping(c.Structure):
            _fields_ = [("a", c.c_int), ("array", c.c_void_p), ("b", c.c_int), ("part", c.c_ulonglong * 4), ("operation", c.c_int), ("c", c.c_int), ("handle", c.c_ulonglong),
                        ("offset", c.c_ulonglong), ("mask", c.c_uint), ("flags", c.c_uint), ("rest", c.c_uint * 2)]
        class How(c.Structure):
            _fields_ = [("type", c.c_int), ("handles", c.c_int), ("where", Place), ("rest", c.c_ubyte * 16)]
        begin()
        handle = c.c_ulonglong()
        say([cuda.cuMemCreate(c.byref(handle), c.c_size_t(512 * MIB), c.byref(How(1, 0, Place(1, 0))), c.c_ulonglong(0)),
             cuda.{map_array}(c.byref(Mapping(operation=1, handle=handle.value)), 1, None), cuda.cuMemRelease(handle), free()])
    """) == [[0, 0, 0, 496]]  # fmt: skip


def test_host_memory_and_memory_of_others_is_not_counted(box: Box) -> None:
    assert said(box, """
        begin()
        class How(c.Structure):
            _fields_ = [("type", c.c_int), ("handles", c.c_int), ("where", Place), ("rest", c.c_ubyte * 16)]
        host, pointer, handle = c.c_void_p(), c.c_ulonglong(), c.c_ulonglong()
        class Ipc(c.Structure):
            _fields_ = [("bytes", c.c_ubyte * 64)]
        say([cuda.cuMemHostAlloc(c.byref(host), c.c_size_t(8 << 30), 0), cuda.cuIpcOpenMemHandle_v2(c.byref(pointer), Ipc(), 0), cuda.cuIpcCloseMemHandle(pointer),
             cuda.cuMemCreate(c.byref(handle), c.c_size_t(8 << 30), c.byref(How(1, 0, Place(2, 0))), c.c_ulonglong(0)),
             cuda.cuMemImportFromShareableHandle(c.byref(handle), None, 1), cuda.cuMemMap(c.c_ulonglong(1 << 40), c.c_size_t(2 * MIB), c.c_size_t(0), handle, c.c_ulonglong(0)),
             cuda.cuMemRelease(handle), free()])
    """) == [[0, 0, 0, 0, 0, 0, 0, 1008]]  # fmt: skip


def test_every_hook_is_called_by_some_test() -> None:
    """By name, in the texts of the tests beside this one: who adds a hook adds its test."""
    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("*.[cp]*"))
    assert [name for name in SHARED_NAMES if name not in texts and name.removesuffix("_ptsz") not in texts] == []
