"""kill -9 at any moment: whatever was acknowledged is there, once."""
import asyncio
import os
import signal
import sqlite3
import sys
from pathlib import Path

import pytest
from store_builders import a_store

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent

WRITER = """
import asyncio, os, sys
from store_builders import a_session, a_store, placed, submitted

async def submit(store, who):
    for turn in range(100_000):
        session = a_session(f"{who}-{turn}")
        [added] = await store.sessions.add([session], [submitted(session)])
        [change] = await store.sessions.save([placed(added)])
        os.write(1, f"{added.id} {added.number}\\n".encode())

async def main():
    async with a_store(sys.argv[1], "to be killed") as store:
        await asyncio.gather(*(submit(store, who) for who in range(16)))

asyncio.run(main())
"""


@pytest.mark.parametrize("lines", [1, 50, 301])
async def test_every_acknowledged_write_survives_a_kill(store_url: str, lines: int):
    acknowledged = await killed_after(lines, store_url)
    async with asyncio.timeout(30), a_store(store_url) as store:
        live = {session.id: session for session in await store.sessions.live()}
        assert len({session.number for session in live.values()}) == len(live)
        for session_id, number in acknowledged.items():
            assert (live[session_id].number, live[session_id].revision) == (number, 2)
            assert [event.what for event in await store.events.page(limit=9, session_id=session_id)] == ["submitted", "placed"]
    if store_url.startswith("sqlite"):
        with sqlite3.connect(store_url.removeprefix("sqlite:///")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        database.close()


async def killed_after(lines: int, url: str) -> dict[str, int]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, url, stdout=asyncio.subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    told = [await process.stdout.readline() for _ in range(lines)]
    process.send_signal(signal.SIGKILL)
    rest = await process.stdout.read()
    assert await process.wait() == -signal.SIGKILL
    whole = b"".join(told) + rest[: rest.rfind(b"\n") + 1]
    return {session_id: int(number) for session_id, number in (line.split() for line in whole.decode().splitlines())}
