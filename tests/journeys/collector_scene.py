"""`fairy exporter` and `fairy agent` as people start them, on a fake driver: started, asked, killed and started again at will."""
import contextlib
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from bench.server import ROOT

from fake_nvml import FakeNvml
from waits import until

END_S = 15
ROW = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Collector:
    """One such process, with a folder of its own that outlives it."""

    def __init__(self, folder: Path, *arguments: str, fake: FakeNvml | None = None, env: dict[str, str] | None = None) -> None:
        self.folder, self._arguments = folder, arguments
        folder.mkdir(exist_ok=True)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRY_", "XDG_", "DOCKER_"))}
        self.env = clean | {"PYTHONPATH": str(ROOT / "src"), **({} if fake is None else fake.env), **(env or {})}
        self.process: subprocess.Popen[bytes] | None = None
        self._begun = 0  # where in the log its last start is

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "gpufairy", *self._arguments, "--data", str(self.folder / "data")]

    @property
    def log(self) -> str:
        """Since its last start."""
        return (self.folder / "log").read_bytes()[self._begun :].decode()

    def start(self) -> "Collector":
        with (self.folder / "log").open("ab") as log:
            self._begun = log.tell()
            self.process = subprocess.Popen(self.command, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def once(self, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.command, *more], env=self.env, capture_output=True, text=True, timeout=60, check=False)

    def children(self) -> list[int]:
        """PIDs: the one that asks the driver, while it is there."""
        assert self.process is not None
        with contextlib.suppress(OSError):
            return [int(pid) for task in Path(f"/proc/{self.process.pid}/task").iterdir() for pid in (task / "children").read_text().split()]
        return []

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(END_S)
        self.process = None
        return code

    def __enter__(self) -> "Collector":
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.end(signal.SIGTERM if self.process.poll() is None else 0)


class ServedCollector(Collector):
    """One whose /metrics can be asked; its port is chosen by the system, and told in its log."""

    def __init__(self, folder: Path, *arguments: str, fake: FakeNvml | None = None, env: dict[str, str] | None = None) -> None:
        super().__init__(folder, "exporter", "--listen", "127.0.0.1:0", *arguments, fake=fake, env=env)

    @property
    def address(self) -> str:
        found = until(lambda: re.findall(r"http://([\d.]+:\d+)/metrics", self.log) or self._over(), f"{self.folder}/log to tell the port")
        return str(found[-1])

    def _over(self) -> None:
        assert self.process is None or self.process.poll() is None, self.log

    def page(self) -> str:
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    def rows(self, family: str) -> dict[str, float]:
        """By the text of the labels; none while nothing was collected yet."""
        with contextlib.suppress(urllib.error.HTTPError):
            return {found["labels"] or "": float(found["value"]) for found in rows_of(self.page(), family)}
        return {}


def rows_of(page: str, family: str) -> Iterator[re.Match[str]]:
    for line in page.splitlines():
        found = ROW.fullmatch(line)
        if found is not None and found["name"] == family:
            yield found


def labels_of(text: str) -> dict[str, str]:
    return dict(LABEL.findall(text))


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
