"""The terminal of a session over a WebSocket: bytes both ways, and a few words of JSON beside them.

Binary messages are what the terminal shows and what is typed. Text from the client: `{"resize": [columns, rows]}`; from us:
`{"exit": code}`, and then the end.
"""
import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Query, WebSocket
from starlette.websockets import WebSocketDisconnect

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, still_allowed
from gpufairy.api.policy import API
from gpufairy.control.alter import running
from gpufairy.control.find import find_session
from gpufairy.control.house import House
from gpufairy.core.errors import NotAllowed
from gpufairy.core.session import Session
from gpufairy.core.workload import workload_id
from gpufairy.engines.contract import Command, Stream

READ_BYTES = 64 * 2**10
LOOK_S = 2.0  # whoever is shut out is gone within 5 s, however busy the server
LAST_WORDS_S = 0.2  # for what a shell printed last
NOT_ALLOWED, SAID_NONSENSE = 1008, 1007  # as RFC 6455 numbers them
LARGEST_SIDE = 9999


def routes(context: Context) -> APIRouter:
    router, house = APIRouter(prefix=API), context.house

    @router.websocket("/sessions/{name}/terminal")
    async def terminal(
        socket: WebSocket, name: str, columns: int = Query(80, ge=1, le=LARGEST_SIDE), rows: int = Query(24, ge=1, le=LARGEST_SIDE)
    ) -> None:
        caller = caller_of(socket)
        session = running(house, await find_session(house, caller, name))
        if session.owner != caller.user.name:
            raise NotAllowed(f"session {session.name} is {session.owner}'s, and its terminal is theirs alone", "Start one of your own.")
        socket.state.give_back = house.streams.take(caller.user.name)
        workload = workload_id(session)
        door = await house.engine.door(workload)
        shell = Command((door.shell, "-l"), terminal=True, columns=columns, rows=rows, env=(("TERM", "xterm-256color"),))
        stream = await house.engine.open(workload, shell)
        try:
            await socket.accept()
            await carried(socket, stream, lasts(house, session, still_allowed(house.registry, socket)))
        finally:
            await stream.close()

    return router


def lasts(house: House, session: Session, allowed: Callable[[], bool]) -> Callable[[], bool]:
    """Whether the terminal may go on: its reader is still let in, and it is the same attempt of the session."""

    def look() -> bool:
        now = house.book.get(session.id)
        return allowed() and now is not None and now.attempt == session.attempt

    return look


async def carried(socket: WebSocket, stream: Stream, may_go_on: Callable[[], bool]) -> None:
    """Until the shell ends, the client goes, or may no longer stay."""
    os.set_blocking(stream.stdin, False)
    shown = asyncio.create_task(show(socket, stream))
    typed = asyncio.create_task(take_typed(socket, stream))
    ended = asyncio.create_task(stream.wait())
    tasks: list[asyncio.Task[Any]] = [shown, typed, ended]
    try:
        while not any(task.done() for task in (typed, ended)) and may_go_on():
            await asyncio.wait([typed, ended], timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        if typed.done():
            await say_goodbye(socket, typed.result())
        elif ended.done():
            await asyncio.wait([shown], timeout=LAST_WORDS_S)
            await socket.send_text(json.dumps({"exit": ended.result()}))
            await socket.close()
        else:
            await socket.close(NOT_ALLOWED, "you are signed out here, or the session is over")
    except (WebSocketDisconnect, RuntimeError):  # gone in the middle of our last words: RuntimeError is how Starlette says so
        pass
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def say_goodbye(socket: WebSocket, code: int | None) -> None:
    if code is not None:
        await socket.close(code, 'text messages are {"resize": [columns, rows]}')


async def show(socket: WebSocket, stream: Stream) -> None:
    """What the terminal shows, no faster than the client takes it."""
    while True:
        await possible(stream.stdout, writing=False)
        try:
            data = os.read(stream.stdout, READ_BYTES)
        except BlockingIOError:
            continue
        except OSError:  # EIO: nobody has it open any more
            return
        if not data:
            return
        await socket.send_bytes(data)


async def take_typed(socket: WebSocket, stream: Stream) -> int | None:
    """Until the client goes; or the code to close with, if it sends what nobody understands. One message at a time is taken."""
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return None
        if (data := message.get("bytes")) is not None:
            await write_all(stream.stdin, data)
            continue
        size = read_resize(message.get("text") or "")
        if size is None:
            return SAID_NONSENSE
        stream.resize(*size)


def read_resize(text: str) -> tuple[int, int] | None:
    """None: it is something else."""
    try:
        columns, rows = json.loads(text)["resize"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if not all(type(side) is int and 1 <= side <= LARGEST_SIDE for side in (columns, rows)):
        return None
    return columns, rows


async def write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            await possible(descriptor, writing=True)
        except OSError:  # the shell has ended
            return


async def possible(descriptor: int, *, writing: bool) -> None:
    """Returns when it can be written, or read."""
    loop = asyncio.get_running_loop()
    add, remove = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
    ready = asyncio.Event()
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)
