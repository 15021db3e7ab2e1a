"""What a session with a part of a GPU finds inside: the share library before all others, its limits, its ledger, the way to MPS.

The limits and the list of libraries to load first are read-only mounts: no rights inside the container change them.
"""
import os
from collections.abc import Sequence
from pathlib import Path

from gpufairy.core.node import Sharing
from gpufairy.core.session import GpuSeat, Session
from gpufairy.core.sharing import is_fraction, sm_percent
from gpufairy.engines.docker_spec import Mount
from gpufairy.engines.run_folder import write_private
from gpufairy.engines.share_ledger import new_ledger

LIBRARY = "/opt/fairy/lib/libfairyshare.so"
PRELOAD = "/etc/ld.so.preload"
# Ours, and where CUDA looks by itself: so that a program without the library, and with an empty environment, is held by MPS all the same.
MPS_FOLDERS = ("/run/fairy/mps", "/tmp/nvidia-mps")
READABLE = 0o644
MIB = 2**20
# What a CUDA context itself takes, measured on an H200: 526 MiB; as a client of MPS it grows with the part of the multiprocessors,
# 145 MiB at 25 %, 271 at 50, 514 at 100.
CONTEXT_BYTES = 526 * MIB
MPS_CONTEXT_BYTES, MPS_CONTEXT_BYTES_PER_PERCENT = 22 * MIB, 5 * MIB


def shared_gpus(session: Session) -> tuple[GpuSeat, ...]:
    """Those of its GPUs that others may have a part of, too."""
    seat = session.seat
    return () if seat is None else tuple(gpu for gpu in seat.gpus if not gpu.simulated and is_fraction(gpu))


def limits_text(gpus: Sequence[GpuSeat], *, mps: bool) -> str:
    """As native/share reads it."""
    rows = [
        f"gpu {gpu.uuid} memory_bytes={gpu.memory_bytes} sm_percent={sm_percent(gpu)} context_bytes={context_bytes(gpu)}" for gpu in gpus
    ]
    return "\n".join(["fairyshare 1", *rows, *([f"mps {MPS_FOLDERS[0]}"] if mps else [])]) + "\n"


def context_bytes(gpu: GpuSeat) -> int:
    if gpu.sharing is Sharing.MPS:
        return MPS_CONTEXT_BYTES + sm_percent(gpu) * MPS_CONTEXT_BYTES_PER_PERCENT
    return CONTEXT_BYTES


def write_share(run: Path, gpus: Sequence[GpuSeat], uid: int, *, mps: bool, library: str = LIBRARY) -> None:
    """`library`: where it is inside."""
    for name in ("share", "ledger", "mps"):  # the last two to be mounted upon
        (run / "inside" / name).mkdir(exist_ok=True)
        (run / "inside" / name).chmod(0o755)
    for path, text in {run / "inside" / "share" / "limits": limits_text(gpus, mps=mps), run / "preload": f"{library}\n"}.items():
        write_private(path, text)
        path.chmod(READABLE)
    (run / "ledger").mkdir(exist_ok=True)
    (run / "ledger").chmod(0o755)  # ours: the file in it is the session's, and no other can be put in its place
    new_ledger(run / "ledger" / "memory")
    os.chown(run / "ledger" / "memory", uid, uid, follow_symlinks=False)


def share_mounts(run: Path, pipes: Path | None) -> tuple[Mount, ...]:
    """`pipes`: of the MPS daemon; clients only connect to what is in it, so it is read-only for them."""
    mounts = (Mount(run / "preload", PRELOAD), Mount(run / "ledger", "/run/fairy/ledger", writable=True))
    return mounts if pipes is None else (*mounts, *(Mount(pipes, folder) for folder in MPS_FOLDERS))
