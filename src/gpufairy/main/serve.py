"""The server: every object made here, started in order, and closed in the other. Sessions outlive it."""
import asyncio
import contextlib
import logging
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from gpufairy.api.app import make_app
from gpufairy.api.context import Context, Watching
from gpufairy.api.problems import status_and_title
from gpufairy.client.machine import this_machine
from gpufairy.control.admit import admit
from gpufairy.control.apps import Apps, AppsSettings
from gpufairy.control.booking_watch import BookingWatch
from gpufairy.control.class_watch import look_at_classes, pack_homes
from gpufairy.control.clock import SteadyClock
from gpufairy.control.clock_set import move_times
from gpufairy.control.converge import converge
from gpufairy.control.doctor import Doctor
from gpufairy.control.expire import expire, forget
from gpufairy.control.host_care import HostCare
from gpufairy.control.house import House
from gpufairy.control.links import SignInLinks
from gpufairy.control.loop import Loop
from gpufairy.control.mig import Cutter
from gpufairy.control.node_news import look_for_nodes
from gpufairy.control.over_share import ShareWatch
from gpufairy.control.passes import make_pass
from gpufairy.control.place import place_waiting
from gpufairy.control.preempt import Preemption
from gpufairy.control.reclaim import ReclaimWatch
from gpufairy.control.selftest import IsolationSelftest
from gpufairy.core.node import Node
from gpufairy.core.session import Session
from gpufairy.core.uids import Uids
from gpufairy.engines.contract import Credentials
from gpufairy.engines.docker import DockerEngine
from gpufairy.engines.kubernetes import KubernetesEngine
from gpufairy.engines.open_files import connections_that_fit, raise_open_files
from gpufairy.engines.proc import boot_id
from gpufairy.engines.process import ProcessEngine
from gpufairy.engines.tidy import keep_tidy
from gpufairy.main.alerts import alert_loops, open_alert_desk, tell_failures
from gpufairy.main.classes import give_classes
from gpufairy.main.cluster import image_rules, kubernetes_engine
from gpufairy.main.containers import api_listener, docker_engine, places, server_id, uids_on_folders
from gpufairy.main.crowd import Crowd, CrowdLimits
from gpufairy.main.disk import give_disk
from gpufairy.main.doctor_look import Patient
from gpufairy.main.doctors import doctor_loops, make_doctor
from gpufairy.main.http import Door, Limits, guarded
from gpufairy.main.janitor import care_loops, make_janitor
from gpufairy.main.mig import make_cutter
from gpufairy.main.own_host import OwnHost
from gpufairy.main.pools import give_pools
from gpufairy.main.shared_gpus import SharedGpus
from gpufairy.main.ssh import Gateway, gateway_limits, start_gateway
from gpufairy.main.upkeep import Upkeeping
from gpufairy.store.store import Store
from gpufairy.web import routes as pages
from gpufairy.web.context import PageContext
from gpufairy.web.no_page import add_no_page
from gpufairy.web.oidc import Oidc
from gpufairy.wire.apps import parse_ports
from gpufairy.wire.config import Config

log = logging.getLogger("gpufairy.serve")

PASS_SECRET = "pass_secret"  # in the store's meta table: signs the tokens that sessions are given
IDLE_S = 15  # of a connection between two requests: strangers hold none for longer
WEBSOCKET_BYTES = 2**20  # of one message: what somebody pastes into a terminal
LARGE_CROWD = 300  # connections: when so many have left, their memory is given back
DRAIN_S = 3  # how long open requests may take to end when the server is asked to leave


@dataclass(frozen=True, slots=True)
class Setup:
    """All that was decided before anything was started."""

    data: Path
    listener: socket.socket
    url: str
    node: Node
    config: Config
    fairy_path: str  # a folder with `fairy` in it, put on the PATH of sessions
    admin: str  # the person who starts it
    fairy_command: str  # how the person who started it calls `fairy`
    engine: str = "process"
    host: str = "127.0.0.1"  # the address that is listened on
    ssh_port: int | None = None  # None: the first that is free
    config_file: Path | None = None  # where `config` was read


@asynccontextmanager
async def opened(setup: Setup) -> AsyncIterator[Context]:
    """Store, engine and house, and the loops, which do not run yet."""
    policy = setup.config.to_policy()
    upkeep = Upkeeping(setup.data, setup.config, setup.config_file)
    store = await open_store(setup, upkeep)
    async with contextlib.AsyncExitStack() as undo:
        undo.push_async_callback(store.close)
        secret = bytes.fromhex(await store.meta.put_once(PASS_SECRET, secrets.token_hex(32)))
        gateway = asyncio.create_task(ssh_gateway(setup, secret))  # it starts while the rest does
        undo.push_async_callback(send_away, gateway)
        to_speak_with = partial(credentials, secret, setup.url)
        shared = SharedGpus(setup.data / "mps", exclusive=setup.config.gpus.exclusive)
        engine = await asyncio.to_thread(make_engine, setup, to_speak_with, lambda: house, shared)
        raise_open_files()  # not before: the process engine gives its sessions what there was
        uids = Uids(on_folders=uids_on_folders(places(setup.data, setup.config).homes))
        house: House = House(store, engine, SteadyClock(), policy, secret, uids=uids, images=image_rules(setup.config, engine.name))
        furnish(house, setup, engine)
        await engine.start(house.bells.converge.set)
        undo.push_async_callback(engine.close)
        undo.push_async_callback(house.deeds.close)
        await move_in(house, setup.admin)
        undo.push_async_callback(shared.leave, house)
        selftest = IsolationSelftest(house, python=probe_python(setup), nightly=setup.config.nightly_selftest)
        undo.push_async_callback(selftest.close)
        await selftest.end_leftovers()
        here = own_host(setup, house, engine)
        cutter = make_cutter(house, setup.data, here.quiet, shared.daemons.give_up)
        await cutter.move_in()
        await here.start()
        undo.push_async_callback(here.close)
        desk = await open_alert_desk(house, setup.config, setup.url)
        undo.push_async_callback(desk.outbox.close)
        backups = await upkeep.backups(house, desk)
        loops = [*make_loops(house, here, setup.config), *gpu_loops(house, shared, cutter, selftest), *alert_loops(desk, setup.config)]
        loops += upkeep.loops(house, backups)
        janitor, care = make_janitor(house, desk, setup.config, probe_python(setup)), HostCare(house)
        await care.load()
        undo.push_async_callback(care.close)
        loops += care_loops(janitor, care)
        tell_failures(desk, loops)
        ssh, watch = await gateway, setup.config.watch
        doctor = own_doctor(setup, house, ssh)
        loops += await doctor_loops(house, desk, doctor, setup.config.doctor.hour)
        yield Context(
            house, SignInLinks(house.clock), setup.url, loops, setup.config.presets, setup.config.default_session(),
            this_machine() if setup.engine == "process" else None, ssh,
            None if ssh is None else Apps(house, apps_settings(setup), setup.data / "apps.json"),
            here.keep, Watching(tuple(watch.name_rules), tuple(watch.user_labels), tuple(watch.users)), here.metrics, cutter, selftest,
            shared.daemons.status, desk=desk, backups=backups, janitor=janitor, doctor=doctor,
        )  # fmt: skip


async def open_store(setup: Setup, upkeep: Upkeeping) -> Store:
    policy, holder = setup.config.to_policy(), f"{setup.node.name} at {setup.url}"
    return await Store.open(
        upkeep.store_url, holder=holder, half_life=policy.half_life, entry_penalty=policy.entry_penalty,
        before_upgrade=upkeep.before_upgrade,
    )  # fmt: skip


async def move_in(house: House, admin: str) -> None:
    await house.move_in()
    # Before the loops: what they adopt by its labels may be this very person's, and must not make them a mere user.
    await house.registry.ensure_admin(admin)
    await move_times(house, boot_id())
    # And before anything is placed: what runs holds its GPUs, even if the store does not know of it yet.
    await converge(house)


def furnish(house: House, setup: Setup, engine: ProcessEngine | DockerEngine | KubernetesEngine) -> None:
    """What the settings say that a house can be without."""
    give_classes(house, setup.data, setup.config)
    house.tariff = setup.config.tariff.to_tariff()
    house.streams.most = setup.config.limits.streams_per_user
    house.cuts.auto = setup.config.mig_auto
    house.bookings.limits = setup.config.to_booking_limits()
    house.insight.pace = setup.config.advice.to_pace()
    give_pools(house, engine)
    give_disk(house, setup.data, setup.config)


def probe_python(setup: Setup) -> str | None:
    """What runs the probe of the self-test inside a session. None: sessions are processes, and held to nothing."""
    return None if setup.engine == "process" else "/opt/fairy/bin/python3"


def own_host(setup: Setup, house: House, engine: ProcessEngine | DockerEngine | KubernetesEngine) -> OwnHost:
    ours = server_id(setup.data) if setup.engine == "docker" else None
    watch, socket = setup.config.watch, setup.config.docker.socket
    every_s, data = setup.config.sample_every_s, setup.data
    return OwnHost(house, engine, setup.node, watch=watch, every_s=every_s, server_id=ours, socket=socket, data=data)


def own_doctor(setup: Setup, house: House, ssh: Gateway | None) -> Doctor:
    http_port = setup.listener.getsockname()[1]
    patient = Patient(
        setup.data, setup.config, kubernetes=setup.engine == "kubernetes", http_port=http_port,
        ssh_port=None if ssh is None else ssh.port, url=setup.url,
    )  # fmt: skip
    return make_doctor(house, patient)


def apps_settings(setup: Setup) -> AppsSettings:
    apps = setup.config.apps
    return AppsSettings(setup.url, setup.config.ssh.listen or setup.host, parse_ports(apps.ports), apps.domain, apps.port)


async def ssh_gateway(setup: Setup, secret: bytes) -> Gateway | None:
    ssh = setup.config.ssh
    if not ssh.enabled:
        return None
    return await start_gateway(setup.data, ssh.listen or setup.host, setup.ssh_port, secret, gateway_limits(setup.config.limits))


async def send_away(starting: asyncio.Task[Gateway | None]) -> None:
    """It takes nobody new in, and stays for those who are in: a restart of the server cuts no shell."""
    starting.cancel()
    await asyncio.wait([starting])
    if not starting.cancelled() and starting.exception() is None and (gateway := starting.result()) is not None:
        gateway.drain()


def make_engine(
    setup: Setup, credentials: Callable[[Session], Credentials], house: Callable[[], House], shared: SharedGpus
) -> ProcessEngine | DockerEngine | KubernetesEngine:
    """`house`: which is not there yet."""
    if setup.engine == "docker":
        return docker_engine(
            setup.data, setup.config, setup.node, credentials, lambda owner: house().registry.user(owner).uid, gpu_shares=shared,
            hand_in=lambda owner, name: house().classes.hand_in(owner, name),  # noqa: PLW0108 - asked when there is one
        )  # fmt: skip
    if setup.engine == "kubernetes":
        return kubernetes_engine(setup.data, setup.config, setup.url, credentials, lambda owner: house().registry.user(owner).uid)
    return ProcessEngine(
        setup.data / "sessions", setup.node, credentials, log_cap_bytes=setup.config.log_cap_bytes, path_prepend=setup.fairy_path
    )


def credentials(secret: bytes, url: str, session: Session) -> Credentials:
    return Credentials(url, make_pass(secret, session))


def make_loops(house: House, here: OwnHost, config: Config) -> list[Loop]:
    """The pauses let a burst gather, so that many changes share one write; the long waits are only for what rings no bell."""
    bells = house.bells
    return [
        Loop("admit", partial(admit, house), bells.admit, every_s=10, pause_s=0.05),
        Loop("place", partial(place_waiting, house), bells.place, every_s=1, pause_s=0.005),
        Loop("converge", partial(converge, house), bells.converge, every_s=1, pause_s=0.005),
        Loop("expire", partial(expire, house), bells.expire, every_s=0.5),
        Loop("look ahead", house.ahead.keep, asyncio.Event(), every_s=1),
        Loop("bookings", BookingWatch(house).look, asyncio.Event(), every_s=2),
        Loop("forget", partial(forget, house), asyncio.Event(), every_s=3600),
        Loop("classes", partial(look_at_classes, house), asyncio.Event(), every_s=5),
        Loop("homes of classes", partial(pack_homes, house), asyncio.Event(), every_s=10),
        Loop("measure", here.look, asyncio.Event(), every_s=config.sample_every_s),
        Loop("shares", ShareWatch(house, config.over_share_grace).look, asyncio.Event(), every_s=config.sample_every_s),
        Loop("reclaim", ReclaimWatch(house, config.reclaim.to_ladders()).look, asyncio.Event(), every_s=config.sample_every_s),
        Loop("preempt", Preemption(house).look, asyncio.Event(), every_s=1),
        Loop("roll up", here.roll_up, asyncio.Event(), every_s=10),
        Loop("disk", house.disk.look, house.disk.wake, every_s=60),
        Loop("disk limits", house.disk.hold_to_limits, house.disk.limits_changed, every_s=60),
    ]


def gpu_loops(house: House, shared: SharedGpus, cutter: Cutter, selftest: IsolationSelftest) -> list[Loop]:
    loops = [
        Loop("mig", cutter.follow_queue, asyncio.Event(), every_s=1),
        Loop("selftest", selftest.look, asyncio.Event(), every_s=60),
    ]
    if house.engine.name == "docker":
        loops.append(Loop("mps", partial(shared.look, house), asyncio.Event(), every_s=3))
    if house.engine.name == "kubernetes":
        loops.append(Loop("nodes", partial(look_for_nodes, house), asyncio.Event(), every_s=2))
        loops.append(Loop("pools", house.pools.look, asyncio.Event(), every_s=2))
    return loops


@asynccontextmanager
async def running(loops: Sequence[Loop], on_end: Callable[[], None]) -> AsyncIterator[None]:
    """A loop ends by itself only when another server leads: `on_end` is called then, and its error raised when all is closed."""
    tasks = [asyncio.create_task(loop.run(), name=f"loop {loop.name}") for loop in loops]
    for task in tasks:
        task.add_done_callback(lambda _: on_end())
    try:
        yield
    finally:
        ended = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in ended:
        task.result()


class Web(uvicorn.Server):
    """Uvicorn, but signals are ours: it must not take them, since the store is closed after it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answers = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.answers.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def http_door(setup: Setup, house: House) -> Door:
    """Who may be connected to page and API."""
    limits = setup.config.limits
    fit = connections_that_fit(limits.connections, "limits.connections", raise_open_files())
    return Door(Crowd(CrowdLimits(fit, limits.connections_per_source, limits.to_trusted())), refusals=house.refusals)


def with_pages(app: FastAPI, setup: Setup, context: Context) -> FastAPI:
    """The app's own guard stands before these routes too."""
    ssh_port = None if context.ssh is None else context.ssh.port
    oidc = setup.config.oidc.to_settings()
    page_context = PageContext(
        context.house, context.links, setup.url, setup.fairy_command, status_and_title, ssh_port,
        context.apps, presets=context.presets, folders=tuple(setup.config.folders), cutter=context.cutter,
        selftest=context.selftest, config=setup.config, ssh_host_key="" if context.ssh is None else context.ssh.host_key,
        oidc=None if oidc is None else Oidc(oidc, setup.url, context.house.clock), desk=context.desk,
        backups=context.backups, janitor=context.janitor, doctor=context.doctor,
    )  # fmt: skip
    pages.add_pages(app, page_context)
    add_no_page(app)
    return app


async def serve(setup: Setup, on_ready: Callable[[Context], Awaitable[None]]) -> None:
    """Runs until SIGTERM or SIGINT. `on_ready` is awaited once requests are answered."""
    async with opened(setup) as context:
        app = with_pages(make_app(context), setup, context)
        door = http_door(setup, context.house)
        http, websocket = guarded(Limits(request_s=setup.config.limits.request_s), door)
        settings = uvicorn.Config(
            app, http=http, ws=websocket, ws_max_size=WEBSOCKET_BYTES, ws_per_message_deflate=False,
            log_config=None, access_log=False, server_header=False, lifespan="off",
            timeout_graceful_shutdown=DRAIN_S, timeout_keep_alive=IDLE_S,
        )  # fmt: skip
        web = Web(settings)

        def leave() -> None:
            context.house.bells.leave()
            web.should_exit = True

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, leave)
        tidying = asyncio.create_task(keep_tidy(lambda: len(door.crowd), LARGE_CROWD))
        async with running(context.loops, leave):
            answering = asyncio.create_task(web.serve(sockets=[setup.listener, api_listener(setup.data)]))
            await asyncio.wait([answering, asyncio.create_task(web.answers.wait())], return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                await on_ready(context)
            await answering
        tidying.cancel()
