"""A gateway process as the server starts it, a house that answers what a test tells it to, and the usual clients."""
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from aiohttp import web

from waits import until

ROOT = Path(__file__).parents[2]
TOKEN = "fairyg_canary_of_the_gateway"
LIMIT_S = 60


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on this machine: apt-get install openssh-client rsync")


def a_door(home: Path, **fields: Any) -> dict[str, Any]:
    env = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "FAIRY_SESSION": "main"}
    return {"kind": "process", "workdir": str(home), "shell": "/bin/bash", "env": list(env.items()), "pid": 0, "most_files": 1024, **fields}


def is_open(home: Path, name: str = "main", greeting: str = "", **fields: Any) -> dict[str, Any]:
    return {"state": "open", "session": {"id": f"id-{name}", "name": name}, "door": a_door(home, **fields), "greeting": greeting}


def waiting(words: str, name: str = "main") -> dict[str, Any]:
    return {"state": "waiting", "session": {"id": f"id-{name}", "name": name}, "words": words}


def problem(status: int, detail: str, next_step: str) -> tuple[int, dict[str, Any]]:
    return status, {"type": "about:blank", "title": "No", "status": status, "detail": detail, "next": next_step}


@dataclass
class FakeHouse:
    """The server's two routes. `answer` says what a door request gets; people and endings may change at any time."""

    data: Path
    answer: Callable[[dict[str, Any]], Any]
    people: dict[str, list[str]] = field(default_factory=dict)
    endings: list[dict[str, Any]] = field(default_factory=list)
    notices: list[dict[str, Any]] = field(default_factory=list)
    revision: int = 1000
    asked: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0

    def start(self) -> "FakeHouse":
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True)
        self._thread.start()
        assert ready.wait(LIMIT_S)
        (self.data / "server.toml").write_text(f'url = "http://127.0.0.1:{self.port}"\n')
        return self

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._leave.set)
        self._thread.join(LIMIT_S)

    def change(self, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self, name, value)
        self.revision += 1
        self._loop.call_soon_threadsafe(self._changed.set)

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._leave, self._changed = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        app = web.Application()
        app.add_routes([web.get("/api/v1/gateway/roster", self._roster), web.post("/api/v1/gateway/doors", self._door)])
        app.add_routes([web.post("/api/v1/gateway/signin-links", self._sign_in)])
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port, backlog=1024, reuse_address=True)
        await site.start()
        self.port = runner.addresses[0][1]
        ready.set()
        await self._leave.wait()
        await runner.cleanup()

    async def _roster(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        if int(request.query["after"]) == self.revision:
            self._changed.clear()
            both = [asyncio.ensure_future(event.wait()) for event in (self._changed, self._leave)]
            await asyncio.wait(both, timeout=25, return_when=asyncio.FIRST_COMPLETED)
            for one in both:
                one.cancel()
        people = [
            {"name": name, "keys": [{"fingerprint": "SHA256:…", "text": text} for text in keys]} for name, keys in self.people.items()
        ]
        return web.json_response({"revision": self.revision, "people": people, "endings": self.endings, "notices": self.notices})

    async def _sign_in(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        return web.json_response({"url": f"http://server/signin?code=for-{(await request.json())['user']}"}, status=201)

    async def _door(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        body = await request.json()
        self.asked.append(body)
        answer = self.answer(body)
        status, plain = answer if isinstance(answer, tuple) else (200, answer)
        return web.json_response(plain, status=status, content_type="application/json" if status < 400 else "application/problem+json")


def make_key(path: Path) -> str:
    """Its public half, as people paste it."""
    key = asyncssh.generate_private_key("ssh-ed25519", comment="test")
    key.write_private_key(path)
    path.chmod(0o600)
    return key.export_public_key().decode().strip()


class Client(subprocess.Popen[bytes]):
    """Killed when a test that began it fails, so that the test ends."""

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, *rest)


class Scene:
    """kim may come in with her key; her session is the process of whoever opens it, in a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.home = folder, folder / "data", folder / "home"
        self.home.mkdir()
        (self.home / ".bash_profile").write_text("PS1='$ '\n")  # whatever the machine's own prompt is
        (self.data / "ssh").mkdir(parents=True, mode=0o700)
        (self.data / "ssh" / "gateway.token").write_text(TOKEN + "\n")
        self.key = folder / "id_kim"
        self.public = make_key(self.key)
        self.house = FakeHouse(self.data, lambda _: is_open(self.home), {"kim": [self.public]})
        self.process: subprocess.Popen[bytes] | None = None
        self.log_path = folder / "gateway.log"

    def start(self, *options: str, port: int = 0) -> "Scene":
        (self.data / "ssh" / "gateway.json").unlink(missing_ok=True)
        self.process = self.spawn(*options, port=port)
        until(lambda: self.port, "the gateway to listen")
        return self

    def spawn(self, *options: str, port: int = 0) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "gpufairy.gateway", "--data", str(self.data), "--port", str(port), *options]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "LD_CANARY": "gateway's own"}
        with self.log_path.open("ab") as log:
            return subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)

    @property
    def noted(self) -> dict[str, Any]:
        try:
            return json.loads((self.data / "ssh" / "gateway.json").read_text())
        except FileNotFoundError:
            return {}

    @property
    def port(self) -> int:
        return self.noted.get("port", 0)

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def options(self, key: Path | None = None) -> list[str]:
        """Of ssh, scp and sftp alike."""
        settings = {
            "IdentitiesOnly": "yes", "StrictHostKeyChecking": "accept-new", "UserKnownHostsFile": str(self.folder / "known_hosts"),
            "BatchMode": "yes", "ConnectTimeout": "20", "LogLevel": "ERROR",
        }  # fmt: skip
        return ["-F", "/dev/null", "-i", str(key or self.key), *(word for pair in settings.items() for word in ("-o", "=".join(pair)))]

    def line(self, *words: str, user: str = "kim", key: Path | None = None, options: tuple[str, ...] = ()) -> list[str]:
        # Of settings given twice, ssh takes the first.
        return ["ssh", *options, *self.options(key), "-p", str(self.port), f"{user}@127.0.0.1", *words]

    def ssh(self, *words: str, user: str = "kim", key: Path | None = None, options: tuple[str, ...] = (), **more: Any) -> Any:
        command = self.line(*words, user=user, key=key, options=options)
        settings = {"capture_output": True, "timeout": LIMIT_S, "stdin": subprocess.DEVNULL, **more}
        if "input" in more:
            del settings["stdin"]
        return subprocess.run(command, check=False, **settings)

    def popen(self, *words: str, user: str = "kim", options: tuple[str, ...] = (), **more: Any) -> "Client":
        command = self.line(*words, user=user, options=options)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return Client(command, **pipes)

    async def connect(self, user: str = "kim", key: Path | None = None, **more: Any) -> asyncssh.SSHClientConnection:
        """By a client that can be told to misbehave."""
        settings = {"client_keys": [str(key or self.key)], "known_hosts": None, "config": None, "agent_path": None, **more}
        return await asyncssh.connect("127.0.0.1", self.port, username=user, **settings)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(LIMIT_S)
        self.house.stop()
