"""`fairy` with failpoints armed: the same program, and the only start that can die at one. FAIRY_FAILPOINT names a file that says where.

A line in that file: POINT PASSING, as `after_placed_written 1`: at which passing it dies. It is read at every passing, so a server that runs is armed by writing
it, and one without the file is as the shipped one. What happened is in the file with `.fired` after its name.
"""
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from gpufairy.cli.entry import run
from gpufairy.core import failpoints


class Trap:
    def __init__(self, file: Path) -> None:
        self._file, self._fired = file, file.with_name(file.name + ".fired")
        self._passed = 0

    def passing(self, name: str) -> None:
        assert name in failpoints.POINTS, f"{name} is not in core/failpoints.py"
        try:
            wanted, passing = self._file.read_text().split()
        except (FileNotFoundError, ValueError):  # not armed, or being written just now
            return
        if name != wanted:
            return
        self._passed += 1
        if self._passed == int(passing):
            self._file.unlink()
            self._fired.write_text(name)
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    # Taken out: what is started from here must not think that it is armed too, and the program refuses to start with it.
    failpoints.on_pass = Trap(Path(os.environ.pop(failpoints.VARIABLE))).passing
    run()
