"""What the isolation probe tries, one after the other: every allocator, many processes, odd environments, and ways past our library."""
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpufairy.core.sharing import DEVICES, EVASION, MEMORY, SM
from gpufairy.core.tried import Tried
from gpufairy.devices.probe_children import Surroundings, ask, changed_loader, command_for, own_loader, run_static
from gpufairy.devices.probe_cuda import NotHere, mapped
from gpufairy.devices.probe_devices import DEVICE_WAYS
from gpufairy.devices.probe_memory import MEMORY_WAYS
from gpufairy.devices.probe_sm import SM_WAYS
from gpufairy.devices.probe_way import SHOWN_BY_CUDA, SHOWN_BY_NVML, Task

PLAIN, OWN_SHARE = "cuMemAlloc", "its own share"
PAUSES_S = (0.0, 2.0, 4.0)
MANY = 4  # processes at once
NOWHERE = "/nonexistent/mps"
BY_STEALTH = ("cuMemAlloc by its address in the file",)  # nobody finds a function so by accident
OWN_LIMITS = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=9999G"}
UNSET: Mapping[str, str | None] = {
    "CUDA_MPS_PIPE_DIRECTORY": None, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": None, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": None,
}  # fmt: skip


def all_tried(task: Task, static: str) -> Iterator[Tried]:
    yield from memory_shown(task)
    yield from (named(way, EVASION if way in BY_STEALTH else MEMORY, ask(replace(task, way=way))) for way in MEMORY_WAYS)
    yield named("a second process", MEMORY, ask(task, processes=2))
    yield named("a forked child", MEMORY, ask(replace(task, forked=True)))
    yield named(f"{MANY} processes at once", MEMORY, ask(task, processes=MANY))
    yield from odd_environments(task)
    yield from multiprocessors(task)
    with tempfile.TemporaryDirectory() as folder:
        yield from copied_driver(task, Path(folder))
        yield from past_the_loader(task, Path(folder))
    yield from by_static_program(task, static)
    yield from (named(way, DEVICES, ask(replace(task, way=way))) for way in DEVICE_WAYS)


def own_share(task: Task) -> Tried:
    """Tried again for a while: what a process had that has just ended is not always free at once."""
    best: dict[str, Any] = {}
    for pause_s in PAUSES_S:
        time.sleep(pause_s)
        answer = ask(task)
        if "error" in answer or answer.get("got_bytes", 0) >= best.get("got_bytes", 0):
            best = answer
        if best.get("got_bytes", 0) >= task.enough_bytes:
            break
    return named(OWN_SHARE, MEMORY, best)


def memory_shown(task: Task) -> Iterator[Tried]:
    for way in (SHOWN_BY_CUDA, SHOWN_BY_NVML):
        answer = ask(replace(task, way=way))
        if "shown" not in answer:
            yield Tried(way, MEMORY, error=str(answer.get("error") or answer.get("words")))
        for function, shown_bytes in answer.get("shown", {}).items():
            yield Tried(f"{function} tells", MEMORY, shown_bytes=shown_bytes)


def odd_environments(task: Task) -> Iterator[Tried]:
    libc = mapped("libc.so") or "libc.so.6"
    changes: dict[str, Mapping[str, str | None]] = {
        "CUDA_MPS_PIPE_DIRECTORY empty": {"CUDA_MPS_PIPE_DIRECTORY": ""},
        "another MPS pipe folder": {"CUDA_MPS_PIPE_DIRECTORY": NOWHERE},
        "MPS limits of one's own": OWN_LIMITS,
        "LD_PRELOAD empty": {"LD_PRELOAD": ""},
        "LD_PRELOAD of libcuda": {"LD_PRELOAD": task.library},
        "CUDA_VISIBLE_DEVICES unset": {"CUDA_VISIBLE_DEVICES": None},
        "CUDA_VISIBLE_DEVICES of others": {"CUDA_VISIBLE_DEVICES": "0,1,2,3"},
        "NVIDIA_VISIBLE_DEVICES=all": {"NVIDIA_VISIBLE_DEVICES": "all"},
    }
    yield named("environment cleared", MEMORY, ask(task, Surroundings(env={})))
    for way, change in changes.items():
        yield named(way, MEMORY, ask(task, Surroundings(env=environment(change))))
    # It comes before the list in /etc: whoever puts the C library itself there has its dlsym, and not ours.
    yield named("LD_PRELOAD of the C library", EVASION, ask(task, Surroundings(env=environment({"LD_PRELOAD": libc}))))


def multiprocessors(task: Task) -> Iterator[Tried]:
    for way in SM_WAYS:
        yield named(way, SM, ask(replace(task, way=way)))
    for words, env in {"environment cleared": {}, "MPS limits of one's own": environment(OWN_LIMITS)}.items():
        yield named(f"multiprocessors used, {words}", SM, ask(replace(task, way="multiprocessors used"), Surroundings(env=env)))


def copied_driver(task: Task, folder: Path) -> Iterator[Tried]:
    """Under a name that says nothing."""
    way, copy = "a copy of libcuda", folder / "libother.so"
    try:
        shutil.copyfile(mapped("libcuda.so") or task.library, copy)
    except OSError as error:
        yield Tried(way, EVASION, error=str(error))
        return
    yield named(way, EVASION, ask(replace(task, library=str(copy))))


def past_the_loader(task: Task, folder: Path) -> Iterator[Tried]:
    """Anybody can copy the dynamic loader and change the name of the list that it reads: no library of ours is loaded then."""
    changed = "a changed loader"
    try:
        past = Surroundings(loader=changed_loader(folder))
    except (NotHere, OSError) as no:
        yield Tried(changed, EVASION, error=str(no))
        return
    yield named(f"{changed}, {MANY} processes", EVASION, ask(task, past, processes=MANY))
    used = replace(task, way="multiprocessors used")
    changes: dict[str, Mapping[str, str | None]] = {
        "": {},
        ", MPS unset": UNSET,
        ", MPS limits of one's own": OWN_LIMITS,
        ", another MPS pipe folder": {"CUDA_MPS_PIPE_DIRECTORY": NOWHERE},
    }
    for words, change in changes.items():
        there = replace(past, env=environment(change))
        yield named(f"{changed}{words}", EVASION, ask(task, there))
        yield named(f"multiprocessors used, {changed}{words}", EVASION, ask(used, there))


def by_static_program(task: Task, program: str) -> Iterator[Tried]:
    """No loader at all: it opens libcuda itself, with the C library of our tools. And, where that crashes, with a loader in memory."""
    way, libcuda, libc = "a static binary", mapped("libcuda.so"), mapped("libc.so")
    if not Path(program).exists() or libcuda is None or libc is None:
        yield from (Tried(way, of, error=f"there is no {program}") for of in (MEMORY, SM))
        return
    folders = f"{os.path.dirname(libc)}:{os.path.dirname(libcuda)}"
    answer = run_static([program, libcuda, str(task.enough_bytes)], environment({"LD_LIBRARY_PATH": folders}))
    yield named(way, MEMORY, {name: value for name, value in answer.items() if name != "sms"})
    yield named(f"multiprocessors told, {way}", SM, {name: value for name, value in answer.items() if name != "got_bytes"})
    try:
        loader = str(own_loader())
    except NotHere as no:
        yield Tried(f"{way} with a loader in memory", MEMORY, error=str(no))
        return
    yield named(f"{way} with a loader in memory", MEMORY, run_static([program, "--loader", *command_for(task, loader)]))


def environment(change: Mapping[str, str | None]) -> dict[str, str]:
    changed = {**os.environ, **change}
    return {name: value for name, value in changed.items() if value is not None}


def named(way: str, of: str, answer: dict[str, Any]) -> Tried:
    if "error" in answer:
        return Tried(way, of, error=str(answer["error"]))
    reached = answer.get("reached")
    if not answer.keys() & {"got_bytes", "sms", "reached"}:
        return Tried(way, of, error="it told nothing of that")
    words = str(answer.get("words", ""))
    return Tried(way, of, answer.get("got_bytes"), None, answer.get("sms"), None if reached is None else tuple(reached), words)
