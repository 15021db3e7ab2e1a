"""A server of its own for a benchmark: started as users start it, in a folder of its own, stopped at the end."""
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpufairy.client import Fairy

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class BenchServer:
    folder: Path
    pid: int
    url: str
    token: str
    env: dict[str, str]
    ready_s: float  # from the start of the process to serving

    def client(self) -> Fairy:
        return Fairy(self.url, self.token)


@contextlib.contextmanager
def running_server(settings: str = "", folder: Path | None = None) -> Iterator[BenchServer]:
    """`folder`: the data of an earlier one, to measure a restart."""
    with contextlib.ExitStack() as undo:
        place = folder or Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="fairy-bench-")))
        (place / "fairy.toml").write_text(settings)
        env = {**os.environ, "XDG_CONFIG_HOME": str(place / "config"), "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-m", "gpufairy", "up", "--data", str(place / "data"), "--port", "0", "--config", str(place / "fairy.toml")]
        began = time.monotonic()
        with (place / "server.log").open("ab") as log:
            process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
        undo.callback(ended, process)
        assert process.stdout is not None
        while "is up" not in (said := process.stdout.readline()):
            if not said:
                raise RuntimeError((place / "server.log").read_text())
        ready_s = time.monotonic() - began
        signed_in = tomllib.loads((place / "config" / "gpufairy" / "config.toml").read_text())
        yield BenchServer(place, process.pid, signed_in["url"], signed_in["token"], env, ready_s)


def ended(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait(30)
