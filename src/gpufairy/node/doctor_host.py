"""What the doctor finds of this machine: clock, names, ports, PIDs."""
import ctypes
import os
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from gpufairy.core.doctor_facts import HostFacts, PortFact, PortState
from gpufairy.node.host_files import read_text
from gpufairy.node.pid_namespace import pid_namespace

STA_UNSYNC = 0x40  # of the kernel's clock (timex.h)
CLOCK_ERROR = 5  # what adjtimex answers for a clock that nobody keeps right
TIMEX_BYTES = 512  # larger than the kernel's struct
STATUS_AT = 40  # where `status` stands in it, on 64-bit machines
PROC = "/proc"


def host_facts(url_name: str, ports: Callable[[], tuple[PortFact | None, PortFact | None]]) -> HostFacts:
    name = socket.gethostname()
    http, ssh = ports()
    spaces = pid_namespace(PROC)
    return HostFacts(
        python=(sys.version_info.major, sys.version_info.minor),
        uid=os.geteuid(),
        clock_synced=clock_synced(),
        name=name,
        name_resolves=resolves(name),
        url_name=url_name,
        url_resolves=resolves(url_name) if url_name else None,
        http=http,
        ssh=ssh,
        hidepid=hidepid(read_text("/proc/self/mounts")),
        hosts_pids=spaces.is_hosts,
    )


def pids_match(driver: str | None) -> bool:
    return pid_namespace(PROC).names(driver)


def strange_pids(pids: Sequence[int]) -> int:
    """How many of them are no processes here."""
    return sum(not Path(PROC, str(pid)).exists() for pid in pids)


def clock_synced() -> bool | None:
    """As the kernel knows it, whoever keeps the clock: asked with no mode set, it changes nothing."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        timex = ctypes.create_string_buffer(TIMEX_BYTES)
        state = libc.adjtimex(timex)
    except (OSError, AttributeError):
        return None
    if state < 0:
        return None
    status = int.from_bytes(timex.raw[STATUS_AT : STATUS_AT + 4], sys.byteorder)
    return state != CLOCK_ERROR and not status & STA_UNSYNC


def resolves(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except (OSError, UnicodeError):
        return False


def hidepid(mounts: str) -> str:
    for line in mounts.splitlines():
        words = line.split()
        if len(words) >= 4 and words[1] == PROC and words[2] == "proc":
            options = dict(option.partition("=")[::2] for option in words[3].split(","))
            found = options.get("hidepid", "")
            return "" if found in ("", "0", "off") else found
    return ""


def port_state(host: str, port: int, *, asked: bool, ours: bool, taken_by: Callable[[int], str]) -> PortFact:
    """`ours`: our own server is known to listen there."""
    if ours:
        return PortFact(port, PortState.OURS, asked=asked)
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as trying:
            trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trying.bind((host, port))
        return PortFact(port, PortState.FREE, asked=asked)
    except OSError:
        return PortFact(port, PortState.TAKEN, taken_by(port).removeprefix(" by "), asked)
