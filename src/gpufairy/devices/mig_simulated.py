"""Scissors for GPUs that are not there. A file stands for their hardware: what was cut stays cut over a restart."""
import json
import os
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpufairy.core.errors import Conflict, EngineRefused
from gpufairy.core.mig import MigInstance
from gpufairy.core.node import Gpu
from gpufairy.devices.mig_order import CutDone, CutOrder, CutSeen, Outcome, instance_to_plain, instances_from_plain
from gpufairy.devices.mig_scissors import HeldBy
from gpufairy.devices.mig_tables import mig_tables


class SimulatedScissors:
    def __init__(self, path: Path) -> None:
        self._path = path

    async def look(self, gpu: Gpu) -> CutSeen:
        return self.found(gpu)

    def found(self, gpu: Gpu) -> CutSeen:
        table = gpu.mig or mig_tables().get(gpu.kind)
        if table is None:
            raise EngineRefused(f"{gpu.kind} cannot be cut by MIG", f"These can: {', '.join(mig_tables())}.")
        kept = self._kept().get(gpu.uuid)
        if kept is None or kept["as_told"] != as_told(gpu):  # it was asked for with another cut since: that counts
            return CutSeen(table, gpu.instances or (), gpu.mig is not None)
        return CutSeen(table, instances_from_plain(kept["instances"]), bool(kept["mode"]))

    def kept(self, gpu: Gpu) -> CutSeen | None:
        kept = self._kept().get(gpu.uuid)
        return self.found(gpu) if kept is not None and kept["as_told"] == as_told(gpu) else None

    async def cut(self, gpu: Gpu, order: CutOrder, held_by: HeldBy) -> CutDone:
        before = self.found(gpu)
        there = list(before.instances)
        for one in order.destroy:
            if any(same_place(one, other) for other in there):
                if held := held_by(one):
                    return CutDone(Outcome.UNDONE, before, held)  # nothing was written yet
                there = [other for other in there if not same_place(one, other)]
        missing = [one for one in order.create if not any(same_place(one, other) for other in there)]
        there += [replace(one, uuid=one.uuid or f"MIG-{gpu.uuid.removeprefix('GPU-')}-{secrets.token_hex(4)}") for one in missing]
        mode = before.mode if order.mode is None else order.mode
        if not mode and there:
            raise Conflict(f"{gpu.uuid} has MIG instances, so MIG mode cannot be switched off", "Take them away first.")
        self._keep(gpu, tuple(sorted(there, key=lambda one: one.start)), mode)
        return CutDone(Outcome.DONE, self.found(gpu))

    def _kept(self) -> dict[str, Any]:
        try:
            kept = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise EngineRefused(f"{self._path} cannot be read: {error}", "Remove it: they are then cut as at first.") from error
        return kept if isinstance(kept, dict) else {}

    def _keep(self, gpu: Gpu, instances: tuple[MigInstance, ...], mode: bool) -> None:
        plain = {"as_told": as_told(gpu), "instances": [instance_to_plain(one) for one in instances], "mode": mode}
        write_whole(self._path, json.dumps({**self._kept(), gpu.uuid: plain}))


def write_whole(path: Path, text: str) -> None:
    """Under another name, to the disk, then renamed: a crash leaves the old or the new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def as_told(gpu: Gpu) -> str:
    """How it was asked for when the server started, so that another wish later is not overruled by an old file."""
    if gpu.mig is None:
        return f"{gpu.kind} whole"
    cut = None if gpu.instances is None else [f"{one.profile}@{one.start}" for one in gpu.instances]
    return f"{gpu.kind} {'on demand' if cut is None else ','.join(cut)}"


def same_place(one: MigInstance, other: MigInstance) -> bool:
    return (one.profile, one.start, one.size) == (other.profile, other.start, other.size)
