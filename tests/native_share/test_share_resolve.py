"""Who asks for a function gets the right one: of the right version, only if the driver has it, and nobody else notices that we are there."""
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from share_scene import MIB, Box, Client, built

from fake_nvml.build import built_library as fake_nvml_library

pytestmark = pytest.mark.slow  # each is quick; all of them are not

NOT_FOUND, VERSION_NOT_SUFFICIENT, NOT_INITIALIZED = 500, 2, 3
BEGIN = """
import ctypes, json, os
cuda = ctypes.CDLL("libcuda.so.1")
loader = ctypes.CDLL(None)
loader.dlsym.restype = loader.dlopen.restype = ctypes.c_void_p

def symbol(name):
    return ctypes.cast(getattr(cuda, name), ctypes.c_void_p).value

def address(name, version, flags=0, new=True):
    found, status = ctypes.c_void_p(0x5eed), ctypes.c_int(-1)
    if new:
        code = cuda.cuGetProcAddress_v2(name, ctypes.byref(found), version, ctypes.c_ulonglong(flags), ctypes.byref(status))
    else:
        code = cuda.cuGetProcAddress(name, ctypes.byref(found), version, ctypes.c_ulonglong(flags))
    return code, found.value, status.value

def owner(pointer):
    for line in open("/proc/self/maps"):
        start, end = (int(word, 16) for word in line.split()[0].split("-"))
        if pointer and start <= pointer < end:
            return os.path.basename(line.split()[-1])

def say(value):
    print(json.dumps(value))
"""


def python(box: Box, script: str, **env: str) -> object:
    done = box.run(sys.executable, "-c", BEGIN + textwrap.dedent(script), **env)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("new", [True, False])
def test_the_variant_follows_version_and_stream(box: Box, new: bool) -> None:
    said = python(box, f"""
        wanted = [("cuMemAlloc", 3010, 0, "cuMemAlloc"), ("cuMemAlloc", 3020, 0, "cuMemAlloc_v2"), ("cuMemAlloc", 12080, 2, "cuMemAlloc_v2"),
                  ("cuMemAllocAsync", 12000, 1, "cuMemAllocAsync"), ("cuMemAllocAsync", 12000, 2, "cuMemAllocAsync_ptsz"), ("cuCtxCreate", 12000, 0, "cuCtxCreate_v3"),
                  ("cuCtxCreate", 13000, 0, "cuCtxCreate_v4"), ("cuGraphAddNode", 12020, 0, "cuGraphAddNode"), ("cuGraphAddNode", 13000, 0, "cuGraphAddNode_v2"),
                  ("cuGraphAddNode", 13040, 0, "cuGraphAddNode_v3"), ("cuGraphInstantiate", 11000, 0, "cuGraphInstantiate_v2"),
                  ("cuGraphInstantiate", 12000, 0, "cuGraphInstantiateWithFlags"), ("cuGetProcAddress", 11030, 0, "cuGetProcAddress"),
                  ("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"), ("cuStreamSynchronize", 12000, 2, "cuStreamSynchronize_ptsz")]
        say([[name, version, symbol_name, address(name.encode(), version, flags, {new})[1] == symbol(symbol_name), owner(symbol(symbol_name))]
             for name, version, flags, symbol_name in wanted])
    """)  # fmt: skip
    assert [row for row in said if row[3:] != [True, "libfairyshare.so"]] == []


def test_a_function_of_a_version_from_the_future_is_refused_if_it_gives_memory(box: Box) -> None:
    said = python(box, 'say([address(b"cuMemAlloc", 99000), address(b"cuMemAlloc", 99000, new=False), address(b"cuMemAlloc", 98999)[1] == symbol("cuMemAlloc_v2")])', FAKE_CUDA_VERSION="99000")
    assert said == [[NOT_FOUND, None, VERSION_NOT_SUFFICIENT], [NOT_FOUND, None, -1], True]


def test_a_function_of_a_version_from_the_future_is_the_drivers_own_if_it_gives_none(box: Box) -> None:
    assert python(box, 'code, found, status = address(b"cuMemGetInfo", 99000)\nsay([code, owner(found), status, found == symbol("cuMemGetInfo_v2")])', FAKE_CUDA_VERSION="99000") == [0, "libcuda.so.1", 0, False]


def test_a_driver_that_hands_out_other_addresses_than_its_symbols_have_is_seen_through(box: Box) -> None:
    assert python(box, 'say([owner(address(b"cuMemAlloc", version)[1]) for version in (3020, 12000, 13000)])', FAKE_CUDA_INNER="1") == ["libfairyshare.so"] * 3
    with box.client("address12", FAKE_CUDA_INNER="1") as client:
        client.do("begin 0")
        assert client.ask(f"fill plain {64 * MIB}") == "15 2"


def test_launches_are_the_drivers_own(box: Box) -> None:
    """No hook before them: a launch costs what it cost."""
    assert python(box, """
        found = [symbol("cuLaunchKernel"), symbol("cuLaunchKernel_ptsz"), address(b"cuLaunchKernel", 12000)[1], address(b"cuLaunchKernel", 12000, 2)[1]]
        say([owner(one) for one in found])
    """) == ["libcuda.so.1"] * 4  # fmt: skip


STRANGE = """
    none = ctypes.c_void_p()
    how = (ctypes.c_int * 8)(1, 0, 1, 99)
    def of_device(device):
        return [cuda.cuDevicePrimaryCtxRetain(ctypes.byref(none), device), cuda.cuCtxCreate_v2(ctypes.byref(none), 0, device),
                cuda.cuCtxCreate_v4(ctypes.byref(none), None, 0, device), cuda.cuDeviceTotalMem_v2(ctypes.byref(ctypes.c_size_t()), device)]
    before = of_device(0)
    cuda.cuInit(0)
    status = ctypes.c_int()
    found = ctypes.c_void_p(1)
    big = ctypes.c_ulonglong(2**64 - 1)
    say([
        before, of_device(99), of_device(-1), cuda.cuMemCreate(ctypes.byref(none), ctypes.c_size_t(2 << 20), how, ctypes.c_ulonglong(0)),
        cuda.cuGetProcAddress_v2(None, ctypes.byref(found), 12000, ctypes.c_ulonglong(0), ctypes.byref(status)),
        cuda.cuGetProcAddress_v2(b"cuMemAlloc", None, 12000, ctypes.c_ulonglong(0), ctypes.byref(status)),
        cuda.cuGetProcAddress_v2(b"cuMemAlloc", ctypes.byref(found), 12000, ctypes.c_ulonglong(0), None),
        cuda.cuGetProcAddress(b"cuNothing", ctypes.byref(found), 12000, ctypes.c_ulonglong(0)), found.value,
        address(b"cuNothing", 12000), address(b"", 12000), address(b"cuMemAlloc", 0), address(b"cuMemAlloc", -5), address(b"cuMemAlloc", 12000, 2**63)[0],
        address(b"cuMemAlloc_v2", 12000), address(b"cuMemCreate", 10010), address(b"cuMemCreate", 2**31 - 1)[0], cuda.cuMemFree_v2(ctypes.c_ulonglong(12345)),
        cuda.cuMemAlloc_v2(None, ctypes.c_size_t(1)), cuda.cuMemCreate(None, ctypes.c_size_t(1), None, ctypes.c_ulonglong(0)), cuda.cuCtxDestroy_v2(None),
        cuda.cuMemRelease(ctypes.c_ulonglong(7)), cuda.cuMemUnmap(ctypes.c_ulonglong(7), ctypes.c_size_t(0)), cuda.cuDevicePrimaryCtxRelease_v2(-1),
        cuda.cuDevicePrimaryCtxReset_v2(99), cuda.cuMemPoolCreate(ctypes.byref(none), None), cuda.cuDeviceTotalMem_v2(ctypes.byref(big), 99), cuda.cuDeviceGraphMemTrim(99),
    ])
"""


def test_strange_questions_are_answered_as_without_us(box: Box) -> None:
    assert python(box, STRANGE) == python(box, STRANGE, LD_PRELOAD="")


def lookups(box: Box, *preload: Path, argument: str = "") -> list[str]:
    done = box.run(str(built("lookups")), *filter(None, [argument]), LD_PRELOAD=":".join(map(str, preload)))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_without_cuda_every_lookup_says_what_it_says_without_us(box: Box) -> None:
    assert lookups(box, built("libfairyshare.so")) == lookups(box)
    assert "default cuMemAlloc_v2: undefined symbol: cuMemAlloc_v2" in lookups(box)


@pytest.mark.parametrize("is_first", [True, False])
def test_an_interposer_that_asks_for_the_next_malloc_does_not_meet_itself(box: Box, is_first: bool) -> None:
    ours, other = built("libfairyshare.so"), built("next.so")
    said = lookups(box, *((other, ours) if is_first else (ours, other)))
    assert said == lookups(box, other)
    assert "the interposer was called: 1" in said


def test_a_program_linked_with_cuda_but_without_a_driver_is_told_so(box: Box) -> None:
    assert lookups(box, built("libfairyshare.so"), argument="call")[-1] == "3 1"  # not initialised; NVML's uninitialised


def test_libcs_own_dlsym_leads_back_to_us(box: Box) -> None:
    assert python(box, """
        libc = ctypes.CDLL("libc.so.6")
        libc.dlsym.restype = ctypes.c_void_p
        say([owner(ctypes.cast(libc.dlsym, ctypes.c_void_p).value), owner(ctypes.cast(libc.dlvsym, ctypes.c_void_p).value),
             owner(libc.dlsym(ctypes.c_void_p(cuda._handle), b"cuMemAlloc_v2"))])
    """) == ["libfairyshare.so"] * 3  # fmt: skip


def test_the_next_one_is_ours_too(box: Box) -> None:
    """For an interposer between the program and the driver."""
    assert python(box, 'say([owner(loader.dlsym(ctypes.c_void_p(where), b"cuMemAlloc_v2")) for where in (-1, 0, cuda._handle)])') == ["libfairyshare.so"] * 3


def test_a_driver_opened_deeply_bound_or_closed_and_opened_again_is_still_held(box: Box) -> None:
    assert python(box, """
        import _ctypes
        _ctypes.dlclose(cuda._handle)
        again = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_DEEPBIND | os.RTLD_LOCAL)
        context, pointer = ctypes.c_void_p(), ctypes.c_ulonglong()
        say([again.cuInit(0), again.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), again.cuCtxSetCurrent(context),
             again.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(900 << 20)), again.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(900 << 20))])
    """) == [0, 0, 0, 0, 2]  # fmt: skip


def test_an_old_driver_lacks_with_us_what_it_lacks_without(tmp_path: Path) -> None:
    box = Box(tmp_path, is_old=True)
    script = 'say([bool(loader.dlsym(ctypes.c_void_p(cuda._handle), name)) for name in (b"cuGraphAddNode_v2", b"cuMemGetDefaultMemPool", b"cuMemAlloc_v2")] + [address(b"cuGraphAddNode", 13000)[1] == symbol("cuGraphAddNode")])'
    assert python(box, script) == [False, False, True, True]
    assert python(box, script, LD_PRELOAD="") == [False, False, True, True]
    said = python(box, """
        context, pointer = ctypes.c_void_p(), ctypes.c_ulonglong()
        say([cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)]
            + [cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(900 << 20)) for _ in range(2)])
    """)  # fmt: skip
    assert said == [0, 0, 0, 0, 2]  # its UUIDs come by the older function


ELF = ["readelf", "--wide", "--dyn-syms", "--dynamic", "--version-info", "--relocs"]


def test_it_loads_into_any_libc_since_2_17() -> None:
    text = subprocess.run([*ELF, str(built("libfairyshare.so"))], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" not in text
    assert "GLIBC" not in text
    assert "IFUNC" not in text
    assert "(INIT" not in text  # nothing runs when it is loaded
    undefined = [line.split()[-1] for line in text.splitlines() if " UND " in line and not line.endswith("UND ")]
    assert set(undefined) <= {"dl_iterate_phdr"}
    assert "TLS" not in text
    assert "TEXTREL" not in text


def test_it_exports_hooks_alone() -> None:
    text = subprocess.run(["nm", "-D", "--defined-only", str(built("libfairyshare.so"))], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in text.splitlines()]
    assert [name for name in names if not name.startswith(("cu", "nvml", "dlsym", "dlvsym"))] == []
    assert {"cuMemAlloc_v2", "cuGetProcAddress_v2", "nvmlDeviceGetMemoryInfo_v2", "dlsym"} <= set(names)


@pytest.mark.parametrize("command", ["ls -la /etc", "bash -c 'set; for i in 1 2; do echo $i; done | cat'", f"{sys.executable} -c 'import ctypes, ssl, json; print(json.dumps([1]))'", "/bin/true", "ls /nowhere"])
def test_programs_without_cuda_run_as_ever_and_leave_no_trace(box: Box, command: str) -> None:
    before = box.ledger.read_bytes()
    ours = box.run("env", "-i", f"LD_PRELOAD={built('libfairyshare.so')}", "/bin/sh", "-c", f"unset LD_PRELOAD; LD_PRELOAD={built('libfairyshare.so')} {command}")
    bare = box.run("env", "-i", "/bin/sh", "-c", command, LD_PRELOAD="")
    assert ours.returncode == bare.returncode
    assert ours.stderr == bare.stderr
    if not command.startswith("bash"):  # which tells its environment, its own number and ours
        assert ours.stdout == bare.stdout
    assert box.ledger.read_bytes() == before
    assert not box.cuda.log_file.exists()


def test_a_program_opens_nothing_by_us_and_has_no_descriptor_more(box: Box) -> None:
    script = "import os; print(sorted(os.listdir('/proc/self/fd')), sorted(os.environ))"
    assert box.run(sys.executable, "-c", script, LD_PRELOAD="").stdout.replace("'LD_PRELOAD', ", "") == box.run(sys.executable, "-c", script).stdout.replace("'LD_PRELOAD', ", "")


def test_nvml_alone_is_resolved_too(box: Box) -> None:
    script = f"import ctypes; nvml = ctypes.CDLL({str(fake_nvml_library())!r}); print(nvml.nvmlDeviceGetMemoryInfo(None, None))"
    done = box.run(sys.executable, "-c", script)
    assert done.stdout == "1\n"


def test_a_client_without_our_library_is_the_same_program(box: Box) -> None:
    """So that what the other tests see comes from the library: bare, it takes the whole card."""
    with Client([str(built("client")), "dlsym"], box.folder, {**box.env(), "LD_PRELOAD": ""}) as client:
        client.do("begin 0", f"take plain {7 << 30}")
