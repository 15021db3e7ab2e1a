"""A lab of a thousand GPUs behind the pages: a house on the fake engine, with holders, readings and a line; asked in this process."""
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from fastapi import FastAPI

from gpufairy.api.app import make_app
from gpufairy.api.context import Context
from gpufairy.api.problems import status_and_title
from gpufairy.control.clock import SteadyClock
from gpufairy.control.house import House
from gpufairy.control.links import PAGE_COOKIE, SignInLinks
from gpufairy.control.registry import PAGE_SCOPE
from gpufairy.core.cluster import Policy
from gpufairy.core.host_reading import HostReading
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import Gpu, Node
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.people import Role
from gpufairy.core.reading import GpuReading
from gpufairy.core.session import GpuSeat, Request, Seat, Session, SessionKind
from gpufairy.core.share import PARTS, Share, ShareKind
from gpufairy.devices.mig_tables import mig_tables
from gpufairy.engines.fake import FakeContainers, FakeEngine
from gpufairy.store.store import Store
from gpufairy.web import routes as pages
from gpufairy.web.context import PageContext

URL = "http://lab:8420"
GIB = 2**30
KINDS = (("A100-40GB", 40), ("H200", 141), ("A100-40GB", 40), ("RTX-4090", 24))
USERS = tuple(f"student{number}" for number in range(1, 41))
TEAMS = ("nlp", "vision", None)
CUTS = ((), (PARTS,), (PARTS // 2, PARTS // 4), (PARTS,), (PARTS // 4, PARTS // 4, PARTS // 2))


@dataclass(slots=True)
class WebLab:
    house: House
    app: FastAPI
    cookie: str
    nodes: Sequence[Node]

    def read_all(self, seed: int) -> None:
        """Every GPU is read anew."""
        chance, now = Random(seed), self.house.clock()
        for number, node in enumerate(self.nodes):
            host = HostReading(now, cpus=64, up_s=86400.0 * (1 + number % 60))
            readings = tuple(a_reading(gpu, now, chance) for gpu in node.gpus)
            self.house.watch.take(NodeSample(node.name, now, 1.0, host, readings=readings), own=True)

    async def ask(self, path: str, **fields: str) -> "Answer":
        """As a browser asks, without the network between."""
        plain_path, _, query = path.partition("?")
        sent = {"host": "lab:8420", "cookie": f"{PAGE_COOKIE}={self.cookie}"}
        sent |= {name.replace("_", "-"): value for name, value in fields.items()}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http", "path": plain_path,
            "raw_path": plain_path.encode(), "query_string": query.encode(), "root_path": "", "client": ("127.0.0.1", 1),
            "server": ("lab", 8420), "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        }  # fmt: skip
        status, body, began_s, cpu_s = 0, bytearray(), time.perf_counter(), time.process_time()

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, object]) -> None:
            nonlocal status
            status = int(str(message.get("status", status)))
            body.extend(message.get("body", b""))  # type: ignore[arg-type]

        await self.app(scope, receive, send)  # type: ignore[arg-type]
        return Answer(status, bytes(body), time.perf_counter() - began_s, time.process_time() - cpu_s)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    took_s: float
    cpu_s: float  # the same where nothing else runs on the machine


@asynccontextmanager
async def a_web_lab(folder: Path, hosts: int, gpus: int = 8, waiting: int = 40) -> AsyncIterator[WebLab]:
    nodes = tuple(a_host(number, gpus) for number in range(hosts))
    store = await Store.open(f"sqlite:///{folder / 'fairy.db'}", holder="bench", half_life=Policy().half_life)
    engine, clock = FakeEngine(nodes, FakeContainers()), SteadyClock()
    house = House(store, engine, clock, Policy(), b"secret")
    await engine.start(house.bells.converge.set)
    await house.move_in()
    try:
        cookie = await people(house)
        for session in (*holders(house, nodes), *line(house, waiting)):
            house.book.put(session)
        links = SignInLinks(clock)
        app = make_app(Context(house, links, URL))
        pages.add_pages(app, PageContext(house, links, URL, "fairy", status_and_title))
        lab = WebLab(house, app, cookie, nodes)
        lab.read_all(0)
        yield lab
    finally:
        await house.deeds.close()
        await engine.close()
        await store.close()


async def people(house: House) -> str:
    """Returns the cookie of the first of them."""
    for number, user in enumerate(USERS):
        await house.registry.add_user(user, Role.ADMIN if number == 0 else Role.USER, team_of(user))
    _, text = await house.registry.create_token(USERS[0], "browser", PAGE_SCOPE, timedelta(days=1))
    return text


def a_host(number: int, gpus: int) -> Node:
    kind, gib = KINDS[number % len(KINDS)]
    made = tuple(Gpu(index, f"GPU-{number:04}-{index}", kind, gib * GIB) for index in range(gpus))
    if number % 10 == 3:  # some are cut by MIG as it is asked for
        made = tuple(replace(gpu, kind="A100-40GB", memory_bytes=40 * GIB, mig=mig_tables()["A100-40GB"]) for gpu in made)
    return Node(f"gpu{number + 1:03}", 64_000, 512 * GIB, made, pool=("lab", "class")[number % 7 == 6])


def holders(house: House, nodes: Sequence[Node]) -> list[Session]:
    chance, now, found = Random(1), house.clock(), []
    for node in nodes:
        for gpu in node.gpus:
            for parts in cut_of(gpu, chance):
                since = now - timedelta(minutes=chance.randrange(5000))
                seat = Seat(node.name, 4000, 16 * GIB, (gpu_seat(gpu, parts),), parts)
                found.append(a_session(len(found), chance.choice(USERS), since, seat))
    return found


def team_of(user: str) -> str | None:
    return TEAMS[USERS.index(user) % len(TEAMS)] if user in USERS else None


def cut_of(gpu: Gpu, chance: Random) -> Sequence[int]:
    """The parts that are held of it."""
    if gpu.mig is not None:
        return (PARTS * 2 // 7, PARTS * 3 // 7)[: chance.randrange(3)]
    return CUTS[chance.randrange(len(CUTS))]


def gpu_seat(gpu: Gpu, parts: int) -> GpuSeat:
    made = GpuSeat(gpu.index, gpu.uuid, parts, gpu.memory_bytes * parts // PARTS, gpu.kind)
    if gpu.mig is None:
        return made
    return replace(made, profile="2g.10gb", size=2) if parts < PARTS * 3 // 7 else replace(made, profile="3g.20gb", start=4, size=4)


def a_session(number: int, owner: str, since: datetime, seat: Seat | None) -> Session:
    request = Request(Share(ShareKind.WHOLE, PARTS), ("train",), time_limit=timedelta(hours=8 + number % 90))
    made = Session(f"id{number}", f"brave-otter-{number}", owner, SessionKind.BATCH, request, since, since, number, team_of(owner))
    if seat is None:
        return made
    return replace(made, phase=Phase.RUNNING, seat=seat, placed_at=since, started_at=since)


def line(house: House, waiting: int) -> list[Session]:
    now = house.clock()
    asked = replace(a_session(0, "", now, None).request, share=Share(ShareKind.WHOLE, 8 * PARTS))
    return [
        replace(a_session(100_000 + number, USERS[number % len(USERS)], now - timedelta(minutes=number), None), request=asked)
        for number in range(waiting)
    ]


def a_reading(gpu: Gpu, at: datetime, chance: Random) -> GpuReading:
    used = int(gpu.memory_bytes * chance.random())
    return GpuReading(
        gpu.uuid, at, chance.random(), used, power_w=50 + 600 * chance.random(), temperature_c=30 + 60 * chance.random(), slowdown_c=92.0
    )  # fmt: skip
