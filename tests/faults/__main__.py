"""Faults, one by one or at random for as long as you like: `python -m tests.faults --list`, `--run NAME [--full]`, `--soak 1h`.

Each has its own data folder, daemons and networks, ends in a bounded time and cleans up after itself. As root, on Debian or Ubuntu with what ./test installs.
"""
import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests"), str(ROOT), str(ROOT / "tests" / "faults"), str(ROOT / "tests" / "journeys")]

import pytest  # noqa: E402
from lengths import FULL  # noqa: E402
from soak import soak  # noqa: E402
from table import FAULTS  # noqa: E402

from gpufairy.core.amounts import parse_duration  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Breaks things on purpose, and looks whether the promises hold.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--list", action="store_true", help="every fault, and the tests that show what is promised")
    what.add_argument("--run", metavar="NAME", help="one of them, or `all`")
    what.add_argument("--soak", metavar="TIME", help="a server under load for so long, with a fault at random each minute: 10m, 1h")
    parser.add_argument("--full", action="store_true", help="with --run: as long and as often as promised, and not shortened as in ./test")
    parser.add_argument("--seed", type=int, default=1, help="with --soak: which faults come when")
    asked = parser.parse_args()
    if asked.soak:
        return soak(parse_duration(asked.soak, "--soak").total_seconds(), asked.seed)
    if asked.list:
        for fault in FAULTS:
            print(f"{fault.name:16} {fault.what}")
            for test in fault.shown_by:
                print(f"{'':18}{test}")
        return 0
    wanted = [fault for fault in FAULTS if asked.run in (fault.name, "all")]
    if not wanted:
        parser.error(f"no fault {asked.run!r}; there are: {', '.join(fault.name for fault in FAULTS)}")
    if asked.full:
        os.environ[FULL] = "1"
    os.chdir(ROOT)
    return int(pytest.main(["-v", *dict.fromkeys(test for fault in wanted for test in fault.shown_by)]))


if __name__ == "__main__":
    sys.exit(main())
