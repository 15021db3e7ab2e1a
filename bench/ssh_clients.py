"""A thousand people at once who sign in by SSH, start something and do nothing: in a process of their own, beside the gateway."""
import asyncio
import multiprocessing
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from bench.figures import percentile
from bench.lab import CIPHER, Lab, let_in, make_key

IDLE_S = 10
EACH = 100  # logins of one user
AT_ONCE = 24  # that sign in at the same time: more would only queue in the kernel
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Held:
    logins: int
    made_s: float
    p99_s: float
    kib_each: float
    idle_share: float


def hold_logins(here: Lab, count: int) -> Held:
    users = students(here, count // EACH)
    before_kib = memory_kib(here.gateway_pid)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=hold, args=(theirs, here.gateway_port, users))
    process.start()
    theirs.close()  # so that its end is heard if it dies
    try:
        ours.recv()  # it is ready
        ours.send("go")
        made_s, taken = ours.recv()
        each = (memory_kib(here.gateway_pid) - before_kib) / count
        began = cpu_s(here.gateway_pid)
        time.sleep(IDLE_S)
        idle = (cpu_s(here.gateway_pid) - began) / IDLE_S
        ours.send("leave")
    finally:
        process.join(60)
        process.kill()
    return Held(count, made_s, percentile(taken, 0.99), each, idle)


def students(here: Lab, count: int) -> dict[str, str]:
    """Each with a key and a session of their own: one user may hold a hundred connections and no more."""
    keys = {}
    with here.server.client() as admin:
        for number in range(count):
            name, key = f"student{number}", here.key.parent / f"key{number}"
            make_key(key)
            let_in(admin, name, key)
            keys[name] = str(key)
    for name, path in keys.items():
        login = here.ssh("true")
        login[login.index("-i") + 1], login[-2] = path, f"{name}@127.0.0.1"
        subprocess.run(login, check=True, capture_output=True)
    return keys


def hold(pipe: Any, port: int, keys: dict[str, str]) -> None:
    users = [(name, asyncssh.read_private_key(path)) for name, path in keys.items()] * EACH
    asyncio.run(hold_all(pipe, port, users))


async def hold_all(pipe: Any, port: int, users: list[tuple[str, asyncssh.SSHKey]]) -> None:
    gate, taken, kept = asyncio.Semaphore(AT_ONCE), [], []

    async def one(user: str, key: asyncssh.SSHKey) -> None:
        async with gate:
            began = time.monotonic()
            connection = await asyncssh.connect(
                "127.0.0.1", port, username=user, client_keys=[key], known_hosts=None, agent_path=None, config=None,
                encryption_algs=[CIPHER], kex_algs=["curve25519-sha256"], compression_algs=["none"],
            )  # fmt: skip
            process = await connection.create_process("sleep 1000")
            taken.append(time.monotonic() - began)
            kept.append((connection, process))

    pipe.send("ready")
    await asyncio.to_thread(pipe.recv)
    began = time.monotonic()
    await asyncio.gather(*(one(user, key) for user, key in users))
    pipe.send((time.monotonic() - began, taken))
    await asyncio.to_thread(pipe.recv)
    for connection, _ in kept:
        connection.abort()


def memory_kib(pid: int) -> int:
    line = next(line for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
    return int(line.split()[1])


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
