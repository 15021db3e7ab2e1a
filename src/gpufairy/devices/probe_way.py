"""One way, tried in a process of its own: told by one argument in JSON, answers with one line of JSON. A child of the isolation probe."""
import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import Any

from gpufairy.devices.probe_cuda import OUT_OF_MEMORY, SHUT_OUT, Cuda, NotHere, Refused
from gpufairy.devices.probe_devices import DEVICE_WAYS, Own
from gpufairy.devices.probe_memory import MEMORY_WAYS, take
from gpufairy.devices.probe_nvml import Nvml, NvmlRefused, facts_of
from gpufairy.devices.probe_sm import SM_WAYS

FACTS, SHOWN_BY_CUDA, SHOWN_BY_NVML = "facts", "memory shown by CUDA", "memory shown by NVML"


@dataclass(frozen=True, slots=True)
class Task:
    way: str
    library: str  # libcuda
    gpu: str = ""
    device: str = ""
    others: tuple[str, ...] = ()
    enough_bytes: int = 0  # of memory: no more is taken
    forked: bool = False  # half of it by a forked child
    hold: bool = False  # keeps what it took until its standard input ends


def main() -> None:
    plain = json.loads(sys.argv[1])
    task = Task(**{**plain, "others": tuple(plain.get("others", ()))})
    try:
        answer = tried(task)
    except (Refused, NotHere, NvmlRefused) as no:
        answer = {"error": str(no)}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    if task.hold:
        sys.stdin.read()
    # Without Python's own goodbye: a driver's library is not always one that can be unloaded.
    os._exit(0)


def tried(task: Task) -> dict[str, Any]:
    own = Own(task.library, task.gpu, task.device, task.others)
    if task.way == FACTS:
        return asdict(facts_of(task.gpu, task.device))
    if task.way in DEVICE_WAYS:
        found = DEVICE_WAYS[task.way](own)
        return {"reached": list(found.what), "words": found.words}
    if task.way == SHOWN_BY_NVML:
        return {"shown": {"nvmlDeviceGetMemoryInfo": shown_by_nvml(task)}}
    if task.way in MEMORY_WAYS:
        return taken_with_child(task) if task.forked else taken(task.library, task.way, task.enough_bytes)
    cuda = Cuda(task.library)
    try:
        cuda.enter()
        return {"shown": cuda.memory_shown()} if task.way == SHOWN_BY_CUDA else {"sms": SM_WAYS[task.way](cuda)}
    except Refused as no:
        if no.code in SHUT_OUT:
            return {"sms": 0, "words": str(no)}
        raise


def taken(library: str, way: str, enough_bytes: int) -> dict[str, Any]:
    cuda = Cuda(library)
    try:
        cuda.enter()
    except Refused as no:
        if no.code in SHUT_OUT or no.code == OUT_OF_MEMORY:  # a context is memory, too
            return {"got_bytes": 0, "words": str(no)}
        raise
    return {"got_bytes": take(MEMORY_WAYS[way](cuda), enough_bytes)}


def taken_with_child(task: Task) -> dict[str, Any]:
    """Each half of it, at the same time. The fork comes first: CUDA does not survive one."""
    told, tell = os.pipe()
    ended, end = os.pipe()
    half = task.enough_bytes // 2
    if os.fork() == 0:
        os.close(end)
        try:
            said = taken(task.library, task.way, half)
        except (Refused, NotHere) as no:
            said = {"error": str(no)}
        os.write(tell, json.dumps(said).encode())
        os.close(tell)
        os.read(ended, 1)  # until the parent is done
        os._exit(0)
    os.close(tell)
    mine = taken(task.library, task.way, half)
    with os.fdopen(told, "rb") as answer:
        theirs = json.loads(answer.read() or b'{"error": "the forked child died"}')
    return summed([mine, theirs])


def summed(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Of processes that took side by side. One that was not let in took nothing; one that failed spoils the figure."""
    failed = next((answer["error"] for answer in answers if "error" in answer), None)
    if failed is not None:
        return {"error": failed}
    words = next((answer["words"] for answer in answers if answer.get("words")), "")
    return {"got_bytes": sum(answer["got_bytes"] for answer in answers), "words": words}


def shown_by_nvml(task: Task) -> int:
    nvml = Nvml()
    handle = nvml.by_uuid(task.device or task.gpu)
    if handle is None:
        raise NotHere(f"NVML does not know its own GPU {task.device}")
    return nvml.memory_bytes(handle)


if __name__ == "__main__":
    main()
