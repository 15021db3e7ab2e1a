"""Every way to take a GPU's memory, each a function that makes the allocator of that way. For the isolation probe.

What is taken is never touched, and goes with the process that took it.
"""
import ctypes
import struct
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_ushort, c_void_p
from pathlib import Path

from gpufairy.devices.probe_cuda import OUT_OF_MEMORY, Allocate, Cuda, NotHere, Refused, mapped

PAGE = 2 * 2**20  # bytes: what drivers hand out at least
LARGEST = 4 * 2**30  # bytes at a time: more would overrun the dimensions of an array
ROW = 2**20  # bytes
PINNED, ON_DEVICE, READ_WRITE, FLOAT = 1, 1, 3, 0x20
CUDA_12 = 12000
SYMBOL_VERSIONS = (b"libcuda.so.1", b"GLIBC_2.2.5", b"GLIBC_2.17")  # a library without versions takes any


class Location(ctypes.Structure):
    _fields_ = (("kind", c_int), ("id", c_int))


class PoolProperties(ctypes.Structure):
    _fields_ = (
        ("kind", c_int), ("handles", c_int), ("location", Location), ("security", c_void_p), ("most_bytes", c_size_t),
        ("usage", c_ushort), ("reserved", ctypes.c_ubyte * 54),
    )  # fmt: skip


class PhysicalProperties(ctypes.Structure):
    _fields_ = (("kind", c_int), ("handles", c_int), ("location", Location), ("metadata", c_void_p), ("flags", c_uint64))


class Access(ctypes.Structure):
    _fields_ = (("location", Location), ("flags", c_int))


class ArrayShape(ctypes.Structure):
    _fields_ = (
        ("width", c_size_t), ("height", c_size_t), ("depth", c_size_t), ("format", c_int), ("channels", c_uint), ("flags", c_uint),
    )  # fmt: skip


class GraphAllocation(ctypes.Structure):
    _fields_ = (("pool", PoolProperties), ("access", c_void_p), ("accesses", c_size_t), ("bytes", c_size_t), ("pointer", c_uint64))


def take(allocate: Allocate, enough_bytes: int) -> int:
    """As much as it gets, up to that. Raises Refused for any no but "out of memory"."""
    got, chunk = 0, min(LARGEST, max(PAGE, enough_bytes))
    while got < enough_bytes:
        size = min(chunk, pages(enough_bytes - got))
        try:
            got += allocate(size)
        except Refused as no:
            if no.code != OUT_OF_MEMORY:
                raise
            if size <= PAGE:
                break
            chunk = pages(size // 2)
    return got


def pages(size: int) -> int:
    return max(PAGE, -(-size // PAGE) * PAGE)


def plainly(cuda: Cuda) -> Allocate:
    return called_as(cuda, cuda.find("cuMemAlloc_v2"))


def called_as(cuda: Cuda, function: Callable[..., int]) -> Allocate:
    def allocate(size: int) -> int:
        if code := function(byref(c_uint64()), c_size_t(size)):
            raise Refused("cuMemAlloc", code)
        return size

    return allocate


def by_pitch(cuda: Cuda) -> Allocate:
    def allocate(size: int) -> int:
        pitch = c_size_t()
        cuda.call("cuMemAllocPitch_v2", byref(c_uint64()), byref(pitch), c_size_t(ROW), c_size_t(size // ROW), c_uint(16))
        return pitch.value * (size // ROW)

    return allocate


def managed(cuda: Cuda) -> Allocate:
    def allocate(size: int) -> int:
        cuda.call("cuMemAllocManaged", byref(c_uint64()), c_size_t(size), c_uint(1))
        return size

    return allocate


def from_default_pool(cuda: Cuda) -> Allocate:
    def allocate(size: int) -> int:
        cuda.call("cuMemAllocAsync", byref(c_uint64()), c_size_t(size), c_void_p())
        cuda.call("cuStreamSynchronize", c_void_p())
        return size

    return allocate


def from_own_pool(cuda: Cuda) -> Allocate:
    pool = c_void_p()
    cuda.call("cuMemPoolCreate", byref(pool), byref(pool_of(cuda)))

    def allocate(size: int) -> int:
        cuda.call("cuMemAllocFromPoolAsync", byref(c_uint64()), c_size_t(size), pool, c_void_p())
        cuda.call("cuStreamSynchronize", c_void_p())
        return size

    return allocate


def pool_of(cuda: Cuda) -> PoolProperties:
    return PoolProperties(kind=PINNED, location=Location(ON_DEVICE, cuda.device.value))


def physical(cuda: Cuda) -> Allocate:
    """Memory first, an address for it after: the way of torch's expandable segments."""
    here = Location(ON_DEVICE, cuda.device.value)
    wanted, access = PhysicalProperties(kind=PINNED, location=here), Access(here, READ_WRITE)

    def allocate(size: int) -> int:
        handle, address = c_uint64(), c_uint64()
        cuda.call("cuMemCreate", byref(handle), c_size_t(size), byref(wanted), c_uint64(0))
        cuda.call("cuMemAddressReserve", byref(address), c_size_t(size), c_size_t(0), c_uint64(0), c_uint64(0))
        cuda.call("cuMemMap", address, c_size_t(size), c_size_t(0), handle, c_uint64(0))
        cuda.call("cuMemSetAccess", address, c_size_t(size), byref(access), c_size_t(1))
        return size

    return allocate


def arrays(cuda: Cuda) -> Allocate:
    def allocate(size: int) -> int:
        shape = ArrayShape(1024, 64, size // ROW, FLOAT, 4, 0)  # four floats an element: a MiB in each layer
        cuda.call("cuArray3DCreate_v2", byref(c_void_p()), byref(shape))
        return size

    return allocate


def graph_nodes(cuda: Cuda) -> Allocate:
    def allocate(size: int) -> int:
        graph, node, ready, wanted = c_void_p(), c_void_p(), c_void_p(), GraphAllocation(pool=pool_of(cuda), bytes=size)
        cuda.call("cuGraphCreate", byref(graph), c_uint(0))
        cuda.call("cuGraphAddMemAllocNode", byref(node), graph, c_void_p(), c_size_t(0), byref(wanted))
        cuda.call("cuGraphInstantiateWithFlags", byref(ready), graph, c_uint64(0))
        cuda.call("cuGraphLaunch", ready, c_void_p())
        cuda.call("cuStreamSynchronize", c_void_p())
        return size

    return allocate


def by_proc_address(cuda: Cuda) -> Allocate:
    """As libcudart and torch find every function."""
    found, status = c_void_p(), c_int()
    cuda.call("cuGetProcAddress_v2", c_char_p(b"cuMemAlloc"), byref(found), c_int(CUDA_12), c_uint64(0), byref(status))
    return at_address(cuda, found.value)


def by_dlvsym(cuda: Cuda) -> Allocate:
    look = ctypes.CDLL(None).dlvsym
    look.restype, look.argtypes = c_void_p, (c_void_p, c_char_p, c_char_p)
    found = (look(cuda.library._handle, b"cuMemAlloc_v2", version) for version in SYMBOL_VERSIONS)
    return at_address(cuda, next(filter(None, found), None))


def by_elf_table(cuda: Cuda) -> Allocate:
    """Without asking anybody: from the library's own table of symbols, where no hook is."""
    path = mapped("libcuda.so")
    if path is None:
        raise NotHere("where libcuda lies in memory is not known")
    return at_address(cuda, base_of(path) + offset_in(Path(path).read_bytes(), b"cuMemAlloc_v2"))


def base_of(path: str) -> int:
    mappings = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(path)]
    return min(int(words[0].partition("-")[0], 16) - int(words[2], 16) for words in mappings)


def offset_in(elf: bytes, name: bytes) -> int:
    """Of a symbol, by the section headers of a 64-bit ELF file. Raises NotHere."""
    (table,) = struct.unpack_from("<Q", elf, 40)
    entry_bytes, entries = struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, table + number * entry_bytes) for number in range(entries)]
    for _, kind, _, _, offset, size, link, _, _, symbol_bytes in sections:
        if kind != 11 or not symbol_bytes:  # the symbols that the loader uses
            continue
        strings = sections[link][4]
        for place in range(offset, offset + size, symbol_bytes):
            start, _, _, _, value = struct.unpack_from("<IBBHQ", elf, place)
            if elf.startswith(name + b"\0", strings + start):
                return int(value)
    raise NotHere(f"libcuda has no symbol {name.decode()}")


def at_address(cuda: Cuda, address: int | None) -> Allocate:
    if not address:
        raise NotHere("it finds no cuMemAlloc")
    return called_as(cuda, ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t)(address))


MEMORY_WAYS: dict[str, Callable[[Cuda], Allocate]] = {
    "cuMemAlloc": plainly,
    "cuMemAllocPitch": by_pitch,
    "cuMemAllocManaged": managed,
    "cuMemAllocAsync": from_default_pool,
    "cuMemAllocFromPoolAsync": from_own_pool,
    "cuMemCreate": physical,
    "cuArray3DCreate": arrays,
    "graph memory nodes": graph_nodes,
    "cuMemAlloc by cuGetProcAddress": by_proc_address,
    "cuMemAlloc by dlvsym": by_dlvsym,
    "cuMemAlloc by its address in the file": by_elf_table,
}
