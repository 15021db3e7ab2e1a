"""How long each stage of a run took, kept in build/times.json."""
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

TIMES = Path("build/times.json")
BEGAN = "FAIRY_TEST_BEGAN"  # when the script began, which may have made an environment first
SLOWEST = 20


class Stages:
    def __init__(self, size: str) -> None:
        self.size, self.seconds = size, dict[str, float]()
        self.began = float(os.environ.get(BEGAN) or time.time())
        TIMES.parent.mkdir(exist_ok=True)
        self.note("environment", time.time() - self.began)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        print(f"\n== {name}", file=sys.stderr, flush=True)
        began = time.monotonic()
        try:
            yield
        finally:
            self.note(name, time.monotonic() - began)

    def note(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def close(self, files: dict[str, float]) -> list[str]:
        """Writes the times down, and tells them: stages in their order, then the slowest files."""
        total = time.time() - self.began
        kept = {name: round(seconds, 1) for name, seconds in self.seconds.items()}
        by_file = {file: round(seconds, 2) for file, seconds in sorted(files.items(), key=lambda one: -one[1])}
        TIMES.write_text(json.dumps({"size": self.size, "total_s": round(total, 1), "stages_s": kept, "files_s": by_file}, indent=1) + "\n")
        lines = [f"where the time went ({show(total)} in all; {TIMES}):"]
        lines += [f"  {show(seconds):>10}  {name}" for name, seconds in self.seconds.items() if seconds >= 0.5]
        lines += [f"  the {min(SLOWEST, len(by_file))} slowest files, of {show(sum(files.values()))} in tests:"]
        return lines + [f"  {show(seconds):>10}  {file}" for file, seconds in list(by_file.items())[:SLOWEST]]


def show(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"
