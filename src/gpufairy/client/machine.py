"""Which machine this is: whether the server that answers runs on it, and so sees the same folders."""
import hashlib
from pathlib import Path

from gpufairy.client.protocol import is_loopback
from gpufairy.client.sync import Fairy

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def this_machine() -> str | None:
    """A name that is this machine's alone until it boots again, and gives nothing away. None: this system has none."""
    try:
        return hashlib.sha256(BOOT_ID.read_bytes().strip()).hexdigest()[:16]
    except OSError:
        return None


def is_here(fairy: Fairy) -> bool:
    """A loopback address is not enough: it may be the near end of a tunnel. Nor is the machine: in a container folders are others."""
    own = this_machine()
    return is_loopback(fairy.url) and own is not None and fairy.me().get("machine") == own
