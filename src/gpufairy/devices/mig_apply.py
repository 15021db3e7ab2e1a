"""The process that cuts a GPU by MIG: a call that hangs hangs here. Run by mig_scissors.py; it ends with whoever holds its stdin.

One order comes as a line of JSON, one answer goes back. Before each instance that goes the parent is asked whether nobody holds it,
and the driver whether nobody computes on it.
"""
import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from gpufairy.core.errors import Conflict, FairyError
from gpufairy.core.mig import MigInstance
from gpufairy.core.mig_plan import whole_profile
from gpufairy.devices.mig_nvml import CutGpu
from gpufairy.devices.mig_order import CutOrder, Outcome, instance_to_plain, order_from_plain, seen_to_plain
from gpufairy.devices.nvml_calls import GpuGone, open_library

YES = "yes"
May = Callable[[MigInstance], None]  # raises Conflict: somebody holds it


def main() -> int:
    answers: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(answers,), daemon=True).start()
    asked = json.loads(answers.get())
    try:
        open_library()
        gpu = CutGpu(asked["gpu"])
        if asked["do"] == "look":
            tell({"seen": seen_to_plain(gpu.seen())})
        else:
            tell(carry_out(gpu, order_from_plain(asked["order"]), lambda one: ask_parent(one, answers)))
    except FairyError as error:
        tell({"trouble": error.detail, "next": error.next_step})
        return 1
    return 0


def carry_out(gpu: CutGpu, order: CutOrder, may: May) -> dict[str, Any]:
    """All of it, or nothing: what failed halfway is undone, as far as the driver lets us."""
    try:
        if order.mode and not gpu.mode() and not switched(gpu, on=True):
            return answer(gpu, Outcome.RESET, after_reset(order.gpu))
        bring(gpu, order.destroy, order.create, may)
        if order.mode is False and gpu.mode() and not switched(gpu, on=False):
            return answer(gpu, Outcome.RESET, after_reset(order.gpu))
    except GpuGone:
        raise  # nothing more can be done with it, and it must not look undone
    except FairyError as error:
        return undone(gpu, order, error)
    return answer(gpu, Outcome.DONE, "")


def bring(gpu: CutGpu, gone: Sequence[MigInstance], there: Sequence[MigInstance], may: May) -> None:
    """From any state in between: what is gone stays gone, what was begun is completed."""
    for one in gone:
        standing = next((found for found in gpu.standing() if same_place(found.instance, one)), None)
        if standing is not None:
            may(one)
            gpu.check_unused(standing)
            gpu.destroy(standing)
    for one in there:
        standing = next((found for found in gpu.standing() if same_place(found.instance, one)), None)
        if standing is None:
            gpu.create(one)
        elif not standing.instance.uuid:
            gpu.make_usable(standing.handle, one)


def undone(gpu: CutGpu, order: CutOrder, error: FairyError) -> dict[str, Any]:
    why = f"{error.detail}. {error.next_step}".strip()
    try:
        if order.destroy or order.create:
            bring(gpu, order.create, order.destroy, lambda one: None)  # what was made a moment ago was given to nobody
        if order.mode and gpu.mode():
            switched(gpu, on=False)
    except FairyError as second:
        return answer(gpu, Outcome.HALF, f"{why} It could not be undone either: {second.detail}.")
    return answer(gpu, Outcome.UNDONE, why)


def switched(gpu: CutGpu, *, on: bool) -> bool:
    gpu.check_unused(None)
    return gpu.set_mode(on)


def after_reset(gpu: str) -> str:
    return f"MIG mode of {gpu} needs a reset of it: with nothing on it, `nvidia-smi --gpu-reset -i {gpu}`, then restart the server"


def same_place(found: MigInstance, wanted: MigInstance) -> bool:
    """Of one GPU instance with several compute instances the driver's own profile is told, not that of its parts."""
    return (found.profile, found.start, found.size) == (whole_profile(wanted.profile), wanted.start, wanted.size)


def answer(gpu: CutGpu, outcome: Outcome, why: str) -> dict[str, Any]:
    return {"outcome": outcome, "why": why, "seen": seen_to_plain(gpu.seen())}


def ask_parent(one: MigInstance, answers: "queue.SimpleQueue[str]") -> None:
    tell({"may": instance_to_plain(one)})
    said = answers.get()
    if said != YES:
        raise Conflict(said, "Wait for it to end, or stop it.")


def tell(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def listen(answers: "queue.SimpleQueue[str]") -> None:
    """A thread of its own, since the other may be stuck in the driver when the parent goes. What was begun, the journal knows."""
    for line in sys.stdin:
        answers.put(line.rstrip("\n"))
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
