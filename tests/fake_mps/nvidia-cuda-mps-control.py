"""The fake nvidia-cuda-mps-control with -d: a daemon with a real process for its server, and a real socket.

Answers, codes and files are those of driver 580 on an H200. The first argument is the folder of FakeMps. See ask.py for the rest.
"""
import contextlib
import fcntl
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = {"-d", "-multiuser-server", "-M"}
NOT_ALLOWED = "Insufficient privileges for UID 0. Control deamon settings can only be modified by the user who started it or by the root user."
NOT_READY, FULL, REFUSED = "807", "808", "805"


def main() -> int:
    folder, flags = Path(sys.argv[1]), sys.argv[2:]
    script = json.loads((folder / "script.json").read_text())
    pipe = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
    known = FLAGS if script["knows_multiuser"] else {"-d"}
    if set(flags) - known:
        print("Usage: nvidia-cuda-mps-control [options]")
        return 0
    if script["start_fails"]:
        print(script["start_fails"], file=sys.stderr)
        return 1
    return start_daemon(pipe, script)


def start_daemon(pipe: Path, script: dict) -> int:
    pipe.mkdir(parents=True, exist_ok=True)
    lock = os.open(pipe / "control_lock", os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("An instance of this daemon is already running")
        return 1
    listening = [bound(pipe / "control", 0o666), bound(pipe / "control_privileged", 0o755)]
    if os.fork():
        os._exit(0)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    (pipe / "nvidia-cuda-mps-control.pid").write_text(f"{os.getpid()}\n")
    (pipe / "nvidia-cuda-mps-control.pid").chmod(0o666)
    if script["dies_at_once"]:
        return 1
    for door in listening:
        door.listen(128)
    Daemon(pipe, listening, script).serve()
    return 0


def bound(path: Path, mode: int) -> socket.socket:
    path.unlink(missing_ok=True)
    door = socket.socket(socket.AF_UNIX)
    door.bind(str(path))
    path.chmod(mode)
    return door


class Server:
    def __init__(self, percent: float, limit: str) -> None:
        self.process = subprocess.Popen([sys.executable, "-I", "-S", str(HERE / "nvidia-cuda-mps-server.py")], stdin=subprocess.PIPE)
        self.state, self.percent, self.limit = "ACTIVE", percent, limit
        self.clients: dict[socket.socket, int] = {}


class Daemon:
    def __init__(self, pipe: Path, listening: list[socket.socket], script: dict) -> None:
        self.pipe, self.most = pipe, script["most_clients"]
        self.percent = float(os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100"))
        self.limit = as_told(os.environ.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "").removeprefix("0="))
        self.servers: dict[int, Server] = {}
        self.quitting = False
        self.waits = selectors.DefaultSelector()
        for door, hear in zip(listening, (self.hear, self.hear_privileged), strict=True):
            self.waits.register(door, selectors.EVENT_READ, lambda door, hear=hear: self.accept(door, hear))

    def serve(self) -> None:
        while not (self.quitting and not self.clients()):
            for key, _ in self.waits.select():
                key.data(key.fileobj)
        for server in self.servers.values():
            server.process.stdin.close()
            server.process.wait()
        (self.pipe / "nvidia-cuda-mps-control.pid").unlink()

    def clients(self) -> list[int]:
        return [pid for server in self.servers.values() for pid in server.clients.values()]

    def accept(self, door: socket.socket, hear) -> None:
        talk, _ = door.accept()
        self.waits.register(talk, selectors.EVENT_READ, hear)

    def hear_privileged(self, talk: socket.socket) -> None:
        self.hear(talk, may_change=True)

    def hear(self, talk: socket.socket, may_change: bool = False) -> None:
        heard = talk.recv(4096).decode()
        if not heard:
            self.lose(talk)
            return
        kind, _, rest = heard.strip().partition(" ")
        if kind == "CLIENT":
            talk.sendall(self.admit(talk).encode() + b"\n")
        elif not self.quitting:
            answer = self.answer(*rest.split()) if may_change or rest.startswith(("get", "ps")) else NOT_ALLOWED
            if self.quitting and self.clients():
                return  # and whoever asked waits
            with contextlib.suppress(BrokenPipeError):  # whoever asked did not wait
                talk.sendall(f"{answer}\n".encode() if answer else b"")
            self.lose(talk)

    def lose(self, talk: socket.socket) -> None:
        self.waits.unregister(talk)
        talk.close()
        for server in self.servers.values():
            server.clients.pop(talk, None)
            if server.state == "FAULT" and not server.clients:
                server.state = "ACTIVE"

    def admit(self, talk: socket.socket) -> str:
        if self.quitting:
            return REFUSED
        server = next(iter(self.servers.values()), None) or self.new_server()
        if server.state == "FAULT":
            return NOT_READY
        if len(server.clients) >= self.most:
            return FULL
        pid, _, _ = struct.unpack("3i", talk.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        server.clients[talk] = pid
        return f"up {server.percent} {server.limit}"

    def new_server(self) -> Server:
        server = Server(self.percent, self.limit)
        self.servers[server.process.pid] = server
        self.waits.register(os.pidfd_open(server.process.pid), selectors.EVENT_READ, lambda end: self.bury(server, end))
        return server

    def bury(self, server: Server, end: int) -> None:
        """A server that was killed: its clients are cut off."""
        self.waits.unregister(end)
        os.close(end)
        server.process.wait()
        del self.servers[server.process.pid]
        for talk in list(server.clients):
            self.waits.unregister(talk)
            talk.close()

    def answer(self, command: str, *words: str) -> str:
        server = self.servers.get(int(words[0])) if words and words[0].isdecimal() else None
        if command == "get_server_list":
            return "\n".join(map(str, self.servers))
        if command == "get_default_active_thread_percentage":
            return str(self.percent)
        if command == "set_default_active_thread_percentage":
            self.percent = float(words[0]) if 0 < float(words[0]) <= 100 else self.percent
            return str(self.percent)
        if command == "get_default_device_pinned_mem_limit":
            return self.limit
        if command == "set_default_device_pinned_mem_limit":
            self.limit = as_told(words[1])
            return ""
        if command == "start_server":
            self.new_server()
            return ""
        if command == "quit":
            self.quitting = True
            return ""
        if command == "fake_fault":
            for one in self.servers.values():
                one.state = "FAULT"
            return ""
        if command == "ps":
            rows = [f"{pid} 1 {number} GPU 0 program" for number, one in self.servers.items() for pid in one.clients.values()]
            return "\n".join(["PID ID SERVER DEVICE NAMESPACE COMMAND", *rows]) if self.servers else "Server not found"
        if server is None:
            return f"Server {words[0]} not found" if words else f'Unknown command "{command}"'
        return self.answer_of(server, command, words[1:])

    def answer_of(self, server: Server, command: str, words: tuple[str, ...]) -> str:
        if command == "get_server_status":
            return server.state
        if command == "get_client_list":
            return "\n".join(map(str, server.clients.values()))
        if command == "get_active_thread_percentage":
            return str(server.percent)
        if command == "set_active_thread_percentage":
            server.percent = float(words[0])
            return str(server.percent)
        if command == "get_device_pinned_mem_limit":
            return server.limit
        if command == "set_device_pinned_mem_limit":
            server.limit = as_told(words[1])
            return ""
        if command == "shutdown_server":
            server.process.stdin.close()
            return ""
        if command == "terminate_client":
            for talk in [talk for talk, pid in server.clients.items() if str(pid) == words[0]]:
                self.lose(talk)
            return ""
        return f'Unknown command "{command}"'


def as_told(value: str) -> str:
    """20480M is told as 20G, and so is 20485M."""
    mib = int(value[:-1]) if value.endswith("M") else 0
    return f"{mib // 1024}G" if mib >= 1024 else value


if __name__ == "__main__":
    sys.exit(main())
