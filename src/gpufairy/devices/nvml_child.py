"""The process that asks the NVIDIA driver, and the only one that loads its library: a call that hangs hangs here. One line a sample.

Run by nvml_source.py; it ends with whoever holds the other end of its stdin. Small on purpose: no asyncio, no numpy.
"""
import argparse
import ctypes
import os
import signal
import sys
import threading
import time
from datetime import UTC, datetime

from gpufairy.devices.nvml import Nvml
from gpufairy.devices.nvml_calls import NoDriver, NvmlFailed
from gpufairy.devices.nvml_exits import FAILED, NO_DRIVER
from gpufairy.devices.sample_line import to_line, trouble_line

PR_SET_PDEATHSIG = 1  # Linux: a signal to ourselves when our parent is gone
RETRY_S = 5.0  # short of the watchdog's patience: a driver that says no is not one that hangs


def main() -> int:
    parser = argparse.ArgumentParser(prog="nvml_child")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--slow", type=float, default=5.0, metavar="SECONDS")
    parser.add_argument("--once", action="store_true")
    wanted = parser.parse_args()
    give_memory_back()
    if wanted.once:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # its stdin may be closed from the start
    else:
        threading.Thread(target=end_with_parent, daemon=True).start()
    while True:
        try:
            tell_samples(Nvml(wanted.slow), wanted.every, wanted.once)
            return 0
        except NoDriver as error:
            tell(trouble_line(error.detail))
            return NO_DRIVER
        except NvmlFailed as error:
            tell(trouble_line(f"{error.detail}. {error.next_step}".strip()))
            if wanted.once:
                return FAILED
        except BrokenPipeError:  # nobody listens any more
            os._exit(0)  # a usual end would try to flush into the same pipe
        time.sleep(RETRY_S)


def give_memory_back() -> None:
    """Where Python may not keep what it compiled, compiling nvidia-ml-py leaves 10 MB behind that nobody needs. Only glibc can do this."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def tell_samples(nvml: Nvml, every_s: float, once: bool) -> None:
    """Closes the library only to open it anew: whoever ends lets go of it by ending, and waits for no thread of its own."""
    nvml.open()
    due_s = time.monotonic()
    try:
        while True:
            tell(to_line(nvml.sample(datetime.now(UTC))))
            if once:
                return
            due_s = max(due_s + every_s, time.monotonic())  # late is late: no catching up
            time.sleep(max(0.0, due_s - time.monotonic()))
    except NvmlFailed:
        nvml.close()
        raise


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """A thread, since the other one may be stuck in the driver when the parent goes."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
