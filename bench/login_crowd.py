"""A thousand logins in the same instant, in one process of their own, and then held.

Run as `python -m bench.login_crowd PORT EACH FROM`, users and their key files as lines of standard input before an empty one: a line of
figures when all are in, and each leaves when standard input ends.
"""
import asyncio
import json
import sys
import time

import asyncssh

from gpufairy.engines.open_files import raise_open_files


async def hold(port: int, each: int, source: str, users: list[tuple[str, asyncssh.SSHKey]]) -> None:
    taken: list[float] = []
    failed: list[str] = []
    kept: list[asyncssh.SSHClientConnection] = []

    async def one(user: str, key: asyncssh.SSHKey) -> None:
        began = time.monotonic()
        try:
            connection = await asyncssh.connect(
                "127.0.0.1", port, username=user, client_keys=[key], known_hosts=None, agent_path=None, config=None,
                encryption_algs=["aes128-gcm@openssh.com"], kex_algs=["curve25519-sha256"], compression_algs=["none"],
                local_addr=(source, 0), login_timeout=0, connect_timeout=None,
            )  # fmt: skip
            kept.append(connection)
            taken.append(time.monotonic() - began)
        except (OSError, asyncssh.Error) as error:
            failed.append(f"{type(error).__name__}: {error}"[:200])

    began = time.monotonic()
    await asyncio.gather(*(one(user, key) for user, key in users * each))
    print(json.dumps({"made_s": time.monotonic() - began, "taken": taken, "failed": failed}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for connection in kept:
        connection.abort()


if __name__ == "__main__":
    raise_open_files()
    lines = [line.split() for line in iter(sys.stdin.readline, "\n")]
    asyncio.run(hold(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], [(name, asyncssh.read_private_key(path)) for name, path in lines]))
