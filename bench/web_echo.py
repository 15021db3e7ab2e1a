"""The terminal in the page: how long a key takes to come back as a letter, over the socket that the page speaks."""
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import aiohttp

from bench.figures import Figure, Report
from bench.server import LiveServer

KEYS = 400
ON_A_LINE = 40
QUIET_S = 0.1  # so long without a byte: the shell has said all it had to say
GOAL_MS = 50.0


def measure() -> Report:
    with tempfile.TemporaryDirectory(prefix="fairy-bench-") as folder, LiveServer(Path(folder) / "fairy") as live:
        client = live.client()
        client.submit({"name": "typed", "kind": "interactive", "gpus": "0"})
        while client.session("typed")["state"] != "RUNNING":
            time.sleep(0.1)
        echoes_ms = sorted(asyncio.run(typed(live)))
    return Report("web_echo", [
        Figure("a key echoed, p95", echoes_ms[int(0.95 * len(echoes_ms))], "ms", goal=GOAL_MS, higher_is_better=False),
        Figure("a key echoed, median", statistics.median(echoes_ms), "ms"),
    ])  # fmt: skip


async def typed(live: LiveServer) -> list[float]:
    """Of each key, the milliseconds until the shell's own line editor has shown it."""
    url, headers = f"{live.url}/api/v1/sessions/typed/terminal", {"Authorization": f"Bearer {live.token}"}
    found = []
    async with aiohttp.ClientSession() as session, session.ws_connect(url, headers=headers) as socket:
        await until_quiet(socket)
        for number in range(KEYS):
            if number % ON_A_LINE == ON_A_LINE - 1:
                await socket.send_bytes(b"\x15")  # the line is wiped, so that it never wraps
                await until_quiet(socket)
            began = time.perf_counter()
            await socket.send_bytes(b"x")
            while b"x" not in (await socket.receive_bytes(timeout=5)):
                pass
            found.append(1000 * (time.perf_counter() - began))
    return found


async def until_quiet(socket: aiohttp.ClientWebSocketResponse) -> None:
    while True:
        try:
            await socket.receive(timeout=QUIET_S)
        except TimeoutError:
            return
