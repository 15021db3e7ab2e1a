"""How long the command line takes, and what an idle server costs."""
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import slurm
from bench.figures import Figure, Report, percentile
from bench.server import LiveServer

RUNS = 15
IDLE_S = 20.0


def measure() -> Report:
    with tempfile.TemporaryDirectory(prefix="fairy-bench-") as folder, LiveServer(Path(folder) / "fairy") as server:
        server.fairy("run", "--gpus", "0.5", "--", "true")
        help_ms = [timed(server, "--help") for _ in range(RUNS)]
        ps_ms = [timed(server, "ps", "-a") for _ in range(RUNS)]
        run_ms = [timed(server, "run", "--gpus", "0", "--", "true") for _ in range(RUNS)]
        time.sleep(2)
        before = cpu_s(server.pid)
        time.sleep(IDLE_S)
        idle_percent = (cpu_s(server.pid) - before) / IDLE_S * 100
        memory_mb = resident_mb(server.pid)
    bare_ms, (squeue_ms, srun_ms, note) = percentile([bare() for _ in range(RUNS)], 0.5), slurm_ms()
    less = {"unit": "ms", "higher_is_better": False}
    return Report("commands", [
        Figure("fairy --help, median", percentile(help_ms, 0.5), goal=250, peer="python3 -c pass", peer_value=bare_ms, **less),
        Figure("fairy ps, median", percentile(ps_ms, 0.5), goal=400, peer="Slurm squeue", peer_value=squeue_ms, note=note, **less),
        Figure("fairy run -- true, to its exit, median", percentile(run_ms, 0.5), peer="Slurm srun true", peer_value=srun_ms, **less),
        Figure("idle server, memory", memory_mb, "MB", goal=150, higher_is_better=False),
        Figure("idle server, of one core", idle_percent, "%", goal=2, higher_is_better=False),
    ])  # fmt: skip


def slurm_ms() -> tuple[float | None, float | None, str]:
    if (reason := slurm.why_not()) is not None:
        return None, None, reason
    with slurm.running_slurm() as env:
        medians = [percentile([clocked(command, env) for _ in range(RUNS)], 0.5) for command in (["squeue"], ["srun", "true"])]
    return medians[0], medians[1], ""


def timed(server: LiveServer, *arguments: str) -> float:
    began = time.monotonic()
    done = server.fairy(*arguments)
    assert done.returncode == 0, done.stderr
    return (time.monotonic() - began) * 1000


def bare() -> float:
    return clocked([sys.executable, "-c", "pass"], None)


def clocked(command: list[str], env: dict[str, str] | None) -> float:
    began = time.monotonic()
    subprocess.run(command, env=env, check=True, capture_output=True)
    return (time.monotonic() - began) * 1000


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def resident_mb(pid: int) -> float:
    line = next(row for row in Path(f"/proc/{pid}/status").read_text().splitlines() if row.startswith("VmRSS"))
    return int(line.split()[1]) * 1024 / 1e6
