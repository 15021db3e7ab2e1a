"""The ledger of GPU memory that the processes of a session keep among themselves: made here, empty. Its layout: native/share/ledger.h."""
import contextlib
import os
import struct
from pathlib import Path

MAGIC, VERSION, SLOTS, GPUS, HEADER_BYTES = b"fairyled", 1, 1024, 16, 4096
LEDGER_BYTES = HEADER_BYTES + 16 * GPUS * SLOTS + 4 * SLOTS


def new_ledger(path: Path) -> None:
    """Unless it is there: a container that runs has it open."""
    with contextlib.suppress(FileExistsError):
        beside = path.with_suffix(".new")
        beside.unlink(missing_ok=True)
        with open(beside, "xb") as file:
            file.write(struct.pack("<8sIIII", MAGIC, VERSION, SLOTS, GPUS, 0))
            file.truncate(LEDGER_BYTES)
        beside.chmod(0o666)  # in a folder that nobody else can reach; a program of the session may give its uid away
        try:
            os.link(beside, path)
        finally:
            beside.unlink()


def held_bytes(path: Path, gpu: int = 0) -> dict[int, int]:
    """What each process says that it holds, by its PID as it knows it itself. For people: dead ones may still be in it."""
    data = path.read_bytes()
    if len(data) != LEDGER_BYTES or data[:8] != MAGIC:
        return {}
    held_at, pids_at = HEADER_BYTES + 8 * GPUS * SLOTS + 8 * gpu * SLOTS, HEADER_BYTES + 16 * GPUS * SLOTS
    held = struct.unpack_from(f"<{SLOTS}Q", data, held_at)
    pids = struct.unpack_from(f"<{SLOTS}I", data, pids_at)
    return {pid: amount for pid, amount in zip(pids, held, strict=True) if pid and amount}
