"""How many multiprocessors a process gets: what the driver tells it, and how many a kernel of its own runs on. For the isolation probe."""
import ctypes
from ctypes import byref, c_char_p, c_size_t, c_uint, c_uint64, c_void_p

from gpufairy.devices.probe_cuda import MULTIPROCESSORS, Cuda

MOST_IDS = 1024  # more than any GPU has multiprocessors
BLOCKS, THREADS = 4096, 32
# Each block marks the multiprocessor it runs on, and stays there for a while so that the next must go to another one.
PTX = b"""
.version 6.3
.target sm_70
.address_size 64
.visible .entry mark(.param .u64 seen)
{
    .reg .pred  %stay;
    .reg .b32   %here, %one;
    .reg .b64   %table, %offset, %began, %now, %spent;
    ld.param.u64        %table, [seen];
    cvta.to.global.u64  %table, %table;
    mov.u32             %here, %smid;
    mov.u32             %one, 1;
    mul.wide.u32        %offset, %here, 4;
    add.u64             %table, %table, %offset;
    st.global.u32       [%table], %one;
    mov.u64             %began, %clock64;
AGAIN:
    mov.u64             %now, %clock64;
    sub.u64             %spent, %now, %began;
    setp.lt.u64         %stay, %spent, 100000;
    @%stay bra          AGAIN;
    ret;
}
\0"""


def told(cuda: Cuda) -> int:
    return cuda.attribute(MULTIPROCESSORS)


def used(cuda: Cuda) -> int:
    """Distinct ones that a kernel of many blocks has run on."""
    module, kernel, seen = c_void_p(), c_void_p(), c_uint64()
    cuda.call("cuModuleLoadData", byref(module), c_char_p(PTX))
    cuda.call("cuModuleGetFunction", byref(kernel), module, c_char_p(b"mark"))
    cuda.call("cuMemAlloc_v2", byref(seen), c_size_t(4 * MOST_IDS))
    cuda.call("cuMemsetD32_v2", seen, c_uint(0), c_size_t(MOST_IDS))
    arguments = (c_void_p * 1)(ctypes.cast(ctypes.pointer(seen), c_void_p))
    grid = (c_uint(BLOCKS), c_uint(1), c_uint(1), c_uint(THREADS), c_uint(1), c_uint(1))
    cuda.call("cuLaunchKernel", kernel, *grid, c_uint(0), c_void_p(), arguments, c_void_p())
    cuda.call("cuCtxSynchronize")
    marks = (c_uint * MOST_IDS)()
    cuda.call("cuMemcpyDtoH_v2", marks, seen, c_size_t(4 * MOST_IDS))
    return sum(map(bool, marks))


SM_WAYS = {"multiprocessors told": told, "multiprocessors used": used}
