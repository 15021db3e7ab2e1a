"""A server of its own for a benchmark or a journey: started as users start it, in a folder of its own, killed and started again at will."""
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from bench.ports import free_port
from gpufairy.client import Fairy

ROOT = Path(__file__).parents[1]
READY_LIMIT_S = 60


class LiveServer:
    spawn = staticmethod(subprocess.Popen)  # tests, which start hundreds, have one that loads less: tests/warm.py

    def __init__(
        self, folder: Path, settings: str = "", options: tuple[str, ...] = (),
        *, engine: str = "process", ssh: bool = False, cold: bool = False,
    ) -> None:  # fmt: skip
        """Without an SSH gateway unless asked for: it is a second process to start and end."""
        if cold:  # a new Python in all that it shows of itself
            self.spawn = subprocess.Popen
        self.folder, self.options = folder, ("--engine", engine, *(("--ssh-port", "0") if ssh else ()), *options)
        folder.mkdir(exist_ok=True)
        (folder / "fairy.toml").write_text(settings if ssh else f"ssh.enabled = false\n{settings}")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRY_", "XDG_"))}
        self.env |= {"XDG_CONFIG_HOME": str(folder / "config"), "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}
        self.banner, self.ready_s, self.port = "", 0.0, free_port()
        self.program = ("-m", "gpufairy")  # tests that arm it have a start of their own
        self.process: subprocess.Popen[str] | None = None
        self._clients: list[Fairy] = []

    def start(self) -> "LiveServer":
        """Returns when it serves. Started again it keeps its port, so that clients find it."""
        command = [sys.executable, *self.program, "up", "--data", str(self.data), "--port", str(self.port), *self.options]
        began = time.monotonic()
        with (self.folder / "server.log").open("ab") as log:
            command += ["--config", str(self.folder / "fairy.toml")]
            self.process = self.spawn(command, env=self.env, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        self.banner = ""
        while "Ctrl-C" not in self.banner:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(f"the server did not start:\n{self.log[-4000:]}")
            self.banner += line
        self.ready_s = time.monotonic() - began
        return self

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def url(self) -> str:
        return str(self._signed_in()["url"])

    @property
    def token(self) -> str:
        return str(self._signed_in()["token"])

    def _signed_in(self) -> dict[str, object]:
        return tomllib.loads((self.folder / "config" / "gpufairy" / "config.toml").read_text())

    def client(self, token: str | None = None) -> Fairy:
        """Closed with the server at the latest."""
        made = Fairy(self.url, token or self.token)
        self._clients.append(made)
        return made

    def fairy(self, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        """The command line as a user types it."""
        settings = {"env": self.env, "capture_output": True, "text": True, "timeout": 60, "cwd": self.folder, "check": False, **options}
        return subprocess.run([sys.executable, "-m", "gpufairy", *arguments], **settings)  # noqa: PLW1510 # type: ignore[call-overload,no-any-return]

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(READY_LIMIT_S)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def stop_all(self) -> None:
        """Sessions outlive the server, so a test that leaves some behind must end them too."""
        if self.process is not None:
            self.fairy("down", "--sessions")
        self.stop()
        for client in self._clients:
            client.close()

    def __enter__(self) -> "LiveServer":
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop_all()
