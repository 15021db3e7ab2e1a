"""What goes wrong with MPS, in words: what, on which GPU, what was found, what to do. Pure."""
from collections.abc import Sequence

from gpufairy.core.errors import EngineRefused

LOST_CONTEXTS = (
    "Programs that used the GPU have lost their CUDA contexts: their next CUDA call fails (error 806), and they have to start anew."
)
ONE_USER_AT_A_TIME = (
    "this driver's nvidia-cuda-mps-control does not know -multiuser-server: programs of other accounts wait until those of one have ended. "
    "Use one account in all containers that share a GPU, or a newer driver."
)
NO_ANSWER = "its MPS daemon does not answer"
NOT_REVIVED = "its MPS daemon died, and cannot be started anew"
IN_FAULT = "its MPS server is in fault: a program on it crashed, and no new one gets in before the others have ended"
MOST_NAMED = 8


def program_missing(program: str, gpu: str, found: str) -> EngineRefused:
    return EngineRefused(
        f"GPU {gpu} cannot be shared in fractions: {program} cannot be run on this machine ({found})",
        "Install it with the NVIDIA driver (nvidia-compute-utils on Ubuntu, xorg-x11-drv-nvidia-cuda on Fedora), or share by time.",
    )


def is_cut(gpu: str) -> EngineRefused:
    return EngineRefused(
        f"GPU {gpu} is cut by MIG, and fractions by MPS are of whole GPUs alone",
        "Ask for one of its MIG profiles, or take the GPU out of MIG mode when nobody uses it.",
    )


def not_started(gpu: str, found: str) -> EngineRefused:
    return EngineRefused(
        f"the MPS daemon of GPU {gpu} cannot be started: {found}", "Read control.log in its log folder, `nvidia-smi` and `dmesg`."
    )


def not_answering(gpu: str, found: str) -> EngineRefused:
    return EngineRefused(
        f"the MPS daemon of GPU {gpu} does not answer: {found}",
        "It is started anew once no program uses it. If it never answers again, end the sessions on that GPU.",
    )


def at_fault(gpu: str, clients: Sequence[int]) -> EngineRefused:
    return EngineRefused(
        f"the MPS server of GPU {gpu} is in fault: a program on that GPU crashed, and no new one gets in before {programs(clients)} ended",
        "Stop the sessions on that GPU, or wait until their programs have ended.",
    )


def limit_reached(gpu: str, clients: int, limit: int) -> EngineRefused:
    return EngineRefused(
        f"{clients} programs use GPU {gpu} by MPS, and {limit} are the most that it takes",
        "Stop a session on that GPU, or ask for a whole GPU.",
    )


def path_too_long(path: str, most_bytes: int) -> EngineRefused:
    return EngineRefused(
        f"the MPS pipe folder {path} has a longer path than a socket may have ({most_bytes} bytes)",
        "Choose a data folder with a shorter path.",
    )


def folder_unsafe(path: str, found: str) -> EngineRefused:
    return EngineRefused(
        f"the MPS pipe folder {path} is {found}, so others could put a daemon of their own there",
        "Remove it, or give it to the account that runs gpufairy with mode 755.",
    )


def folder_not_made(path: str, found: str) -> EngineRefused:
    return EngineRefused(
        f"the MPS folder {path} cannot be made or written: {found}", "Make room, or give gpufairy the right to write there."
    )


def still_used(gpu: str, clients: Sequence[int]) -> EngineRefused:
    return EngineRefused(
        f"GPU {gpu} cannot be given out whole yet: it is shared by MPS and in use by {programs(clients)}",
        "They end with their session; it is tried again.",
    )


def programs(pids: Sequence[int]) -> str:
    """`program 12`, `programs 12, 13`, and no endless list."""
    if not pids:
        return "no program"
    named = ", ".join(str(pid) for pid in pids[:MOST_NAMED])
    more = f" and {len(pids) - MOST_NAMED} more" if len(pids) > MOST_NAMED else ""
    return f"program{'s' if len(pids) > 1 else ''} {named}{more}"
