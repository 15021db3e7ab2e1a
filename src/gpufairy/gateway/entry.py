"""The gateway's process: keys, socket, server and signals put together. It outlives the server, so that no restart cuts a shell."""
import asyncio
import contextlib
import gc
import logging
import shutil
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpufairy.core.errors import Conflict
from gpufairy.engines.open_files import connections_that_fit, raise_open_files
from gpufairy.engines.sftp_server import SFTP_SERVERS
from gpufairy.engines.tidy import keep_tidy
from gpufairy.gateway.apps import AppsDoor
from gpufairy.gateway.connection import Connection
from gpufairy.gateway.doorstep import Doorstep
from gpufairy.gateway.flows import bound_calls
from gpufairy.gateway.gate import Gate
from gpufairy.gateway.host_keys import host_keys
from gpufairy.gateway.listening import Words, bound
from gpufairy.gateway.options import make_offers
from gpufairy.gateway.process_note import ask_to_drain, read_note, this_process
from gpufairy.gateway.roster_watch import follow_roster, tell_refusals
from gpufairy.gateway.seam import House
from gpufairy.gateway.server_client import HttpHouse
from gpufairy.gateway.settings import GatewaySettings
from gpufairy.gateway.turns import Stranger
from gpufairy.gateway.visitor import Visitor

log = logging.getLogger("gpufairy.gateway")

WORDS = Words("SSH port", "Stop what listens there, or name another with --ssh-port.", "Check --listen and --ssh-port.")
TAKE_OVER_S = 10.0  # for the gateway before us to let go of the port
GOODBYE_S = 5.0  # for commands to end, when all are ended


async def serve_gateway(settings: GatewaySettings, house: House | None = None) -> None:
    """Runs until told to leave: by SIGTERM when the last visitor has gone, however often it comes; by SIGINT at once."""
    fit = connections_that_fit(settings.most_waiting, "limits.ssh_waiting", raise_open_files())
    settings = replace(settings, most_waiting=fit)
    bound_calls()
    keys = host_keys(settings.folder)
    listener = await taken_over(settings)
    gate = Gate(settings, house or HttpHouse(settings.data, settings.token_file), sftp_server())
    offers = make_offers(keys, lambda: Visitor(gate))

    def let_in(stranger: Stranger) -> Connection:
        connection = Connection(offers.to(stranger.said), settings, stranger.said)
        connection.when_settled(lambda: doorstep.done(stranger))
        starting = asyncio.get_running_loop().create_task(_connected(connection, stranger.link))
        gate.watch(starting)
        return connection

    doorstep, apps = Doorstep(listener, settings, let_in, gate.refusals), AppsDoor(settings)
    note = this_process(listener.getsockname()[1], " ".join(keys[0].export_public_key().decode().split()[:2]))
    note.write(settings.note)
    log.info("listening on %s port %d", settings.listen, note.port)
    gc.collect()
    gc.freeze()  # what is here now stays for good

    def stop_listening() -> None:
        doorstep.close()
        apps.drain()
        # Now, not at the end: whoever reads it must not take us for one that still listens.
        if read_note(settings.note) == note:
            settings.note.unlink(missing_ok=True)

    try:
        tidying = asyncio.create_task(keep_tidy(lambda: len(gate.guests) + doorstep.strangers))
        await until_told(gate, apps, lambda: doorstep.busy, stop_listening)
        tidying.cancel()
    finally:
        stop_listening()
        await apps.close()
        await ended(gate)


async def _connected(connection: Connection, link: socket.socket) -> None:
    try:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, link)
    except OSError:  # gone before it was taken over
        link.close()


async def taken_over(settings: GatewaySettings) -> socket.socket:
    """The listening socket, when the gateway before us has let go of its port."""
    asked = ask_to_drain(settings.note)
    until = asyncio.get_running_loop().time() + (TAKE_OVER_S if asked else 0.0)
    while True:
        try:
            return bound(settings.listen, settings.port, WORDS)
        except Conflict:
            if asyncio.get_running_loop().time() >= until:
                raise
        await asyncio.sleep(0.05)


async def until_told(gate: Gate, apps: AppsDoor, busy: Callable[[], bool], stop_listening: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    draining, at_once = asyncio.Event(), asyncio.Event()

    def drain() -> None:
        draining.set()
        stop_listening()

    loop.add_signal_handler(signal.SIGTERM, drain)
    loop.add_signal_handler(signal.SIGINT, at_once.set)

    async def drained() -> None:
        await draining.wait()
        log.info("no longer listening; %d visitors go on", len(gate.guests))
        while busy() or gate.guests or not apps.empty.is_set():
            await gate.empty.wait()
            await apps.empty.wait()
            await asyncio.sleep(0.1)

    async def needed() -> None:
        await follow_roster(gate)
        while not apps.empty.is_set():
            await follow_roster(gate)

    tasks = [loop.create_task(work) for work in (needed(), apps.serve(), drained(), _awaited(at_once), tell_refusals(gate))]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _awaited(event: asyncio.Event) -> None:
    await event.wait()


async def ended(gate: Gate) -> None:
    """Everybody out, and their commands with them."""
    gate.close()
    for guest in gate.guests:
        guest.turn_out("the SSH gateway is stopped; your session goes on")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GOODBYE_S):
            await asyncio.sleep(0)  # connections end in the next round, and cancel their tasks
            while gate.tasks:
                await asyncio.wait(list(gate.tasks))
    await gate.house.close()


def sftp_server() -> str | None:
    return next((path for path in SFTP_SERVERS if Path(path).exists()), None) or shutil.which("sftp-server")
