"""Records sessions for the labelled set: `python tests/insight/record.py` writes tests/data/insight/recorded/*.json, in about ten minutes.

The programs are real: loaders that burn CPU, random reads past the cache, memory that fills. What they take of CPUs, memory and disks is
read as the agent reads it. There is no GPU: a step on it is a pause of known length, and its use is the part of the time spent in such pauses.
"""
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from gpufairy.node.session_use import SessionUse

FOLDER = Path(__file__).parents[1] / "data" / "insight" / "recorded"
STEP_S, LOOK_S = 10, 1.0
LENGTH_S = 230  # a window of three minutes, and the warm-up
FLOWS = ("cpus", "memory_bytes", "read_bytes_per_s", "written_bytes_per_s", "received_bytes_per_s", "sent_bytes_per_s", "io_waited")

# Each prints, every second, for what part of it the GPU was in use.
HEAD = """
import os, sys, time, zlib, random, mmap, multiprocessing as mp
busy = 0.0
def step(seconds):
    global busy
    began = time.monotonic(); time.sleep(seconds); busy += time.monotonic() - began; tell()
told = time.monotonic()
def tell():
    global busy, told
    now = time.monotonic()
    if now - told >= 1:
        print(min(1.0, busy / (now - told)), flush=True); busy, told = 0.0, now
NOISE = os.urandom(200_000)
def decode(times):
    for _ in range(times): zlib.compress(NOISE, 6)
def rest(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end: time.sleep(0.5); tell()
"""
PROGRAMS: Mapping[str, str] = {
    "loader_in_two_workers": """
def work(queue):
    while True: decode(10); queue.put(1)
queue = mp.Queue(2); [mp.Process(target=work, args=(queue,), daemon=True).start() for _ in range(2)]
while True:
    queue.get(); step(0.012)
""",
    "loader_in_the_same_thread": "while True: decode(8); step(0.02)\n",
    "random_reads": """
name = sys.argv[1]; size = os.path.getsize(name); file = os.open(name, os.O_RDONLY | os.O_DIRECT); page = mmap.mmap(-1, 65536)
while True:
    for _ in range(400):
        os.preadv(file, [page], random.randrange(size // 65536) * 65536)
    step(0.02)
""",
    "holds_and_sleeps": "held = bytearray(100_000_000)\nrest(1e9)\n",
    "cpu_alone": "while True: decode(20); tell()\n",
    "memory_nearly_full": "held = bytearray(225_000_000)\nwhile True: decode(1); step(0.08)\n",
    "done_and_not_ended": "end = time.monotonic() + 110\nwhile time.monotonic() < end: decode(1); step(0.06)\nrest(1e9)\n",
    "trains_well": "while True: decode(1); step(0.09)\n",
    "evaluates": """
while True:
    end = time.monotonic() + 45
    while time.monotonic() < end: decode(1); step(0.08)
    end = time.monotonic() + 15
    while time.monotonic() < end: decode(5); tell()
""",
    "serves_little": "while True: time.sleep(0.1); step(0.03)\n",
    "loads_for_a_minute": "end = time.monotonic() + 60\nwhile time.monotonic() < end: decode(5); tell()\nwhile True: decode(1); step(0.09)\n",
}
TURNS = (
    ("holds_and_sleeps", "memory_nearly_full", "done_and_not_ended", "trains_well", "serves_little"),
    ("loader_in_two_workers", "loads_for_a_minute"), ("random_reads", "evaluates"), ("loader_in_the_same_thread", "cpu_alone"),
)  # fmt: skip


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    large = Path(sys.argv[1] if len(sys.argv) > 1 else "/var/tmp/fairy-insight.bin")
    with large.open("wb") as file:
        for _ in range(1024):
            file.write(bytes(1 << 20))
    try:
        for turn in TURNS:
            for name, columns in recorded({name: PROGRAMS[name] for name in turn}, large).items():
                (FOLDER / f"{name}.json").write_text(json.dumps({"step_s": STEP_S, "columns": columns}) + "\n")
                print(name, {column: round(sum(v for v in values if v is not None) / max(1, len(values)), 3) for column, values in columns.items()})
    finally:
        large.unlink()


def recorded(programs: Mapping[str, str], large: Path) -> dict[str, dict[str, list[float | None]]]:
    running = {
        name: subprocess.Popen([sys.executable, "-c", HEAD + text, str(large)], stdout=subprocess.PIPE, text=True, start_new_session=True)
        for name, text in programs.items()
    }
    use, looks = SessionUse(), {name: [] for name in programs}
    began = time.monotonic()
    for beat in range(1, int(LENGTH_S / LOOK_S) + 1):
        readings = {one.session_id: one for one in use.read({name: family(process.pid) for name, process in running.items()})}
        for name, reading in readings.items():
            looks[name].append([getattr(reading, column) for column in FLOWS])
        time.sleep(max(0.0, began + beat * LOOK_S - time.monotonic()))
    used = {}
    for name, process in running.items():
        for pid in family(process.pid)[::-1]:
            subprocess.run(["kill", "-9", str(pid)], check=False, stderr=subprocess.DEVNULL)
        used[name] = [float(line) for line in process.communicate()[0].split()]
    return {name: in_steps(looks[name], used[name]) for name in programs}


def family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(one for child in children for one in family(int(child)))]


def in_steps(looks: list[list[float | None]], used: list[float]) -> dict[str, list[float | None]]:
    """A program that tells nothing does nothing on the GPU; its lines come about one a second."""
    count = int(LENGTH_S / STEP_S)
    per = STEP_S / LOOK_S
    columns = {name: [mean([row[place] for row in looks[int(i * per) : int((i + 1) * per)]]) for i in range(count)] for place, name in enumerate(FLOWS)}
    scale = len(used) / LENGTH_S
    columns["gpu"] = [mean(used[int(i * STEP_S * scale) : int((i + 1) * STEP_S * scale)] or [0.0]) for i in range(count)]
    return columns


def mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 4) if known else None


if __name__ == "__main__":
    main()
