"""The fairness ledger of a house after a long life, against the log of events read by somebody else: equal to the part and microsecond."""
import json
import random
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI
from house_scene import Scene, a_house
from test_history import ask, token_of

from builders import NOW
from gpufairy.api.app import make_app
from gpufairy.api.context import Context
from gpufairy.control.clock import HeldClock
from gpufairy.control.door import ask_to_stop, submit
from gpufairy.control.ledger import ledger_of
from gpufairy.control.links import SignInLinks
from gpufairy.control.registry import Caller
from gpufairy.core.errors import BadInput
from gpufairy.core.fair_ledger import LedgerBy
from gpufairy.core.lifecycle import Phase
from gpufairy.core.people import Role, User
from gpufairy.core.session import IdleStep, Session
from gpufairy.core.share import PARTS
from gpufairy.core.steps import idle_step, reseat, send_back
from gpufairy.core.workload import workload_id
from gpufairy.engines.fake import FakeContainers
from gpufairy.wire.submit import SubmitBody

HOUR = timedelta(hours=1)
PEOPLE = [User("ann", Role.USER, NOW, team="nlp"), User("bob", Role.USER, NOW, team="nlp"), User("eve", Role.USER, NOW)]
STEPS = 120  # of one life, each with all loops run until they rest


async def come(scene: Scene, user: User, gpus: str, **fields: object) -> Session:
    body = SubmitBody.model_validate({"command": ["work"], "gpus": gpus, **fields})
    [session] = await submit(scene.house, Caller(user, "full"), body, {}, None)
    return session


async def one_thing(scene: Scene, chance: random.Random) -> None:
    running = [session for session in scene.house.book if session.phase is Phase.RUNNING]
    what = chance.choice(["come", "come", "come", "end", "fail", "stop", "preempt", "shrink", "refused", "time"])
    if what == "come" or not running:
        gpus = chance.choice(["0", "0.25", "0.5", "1", "1", "2"])
        await come(scene, chance.choice(PEOPLE), gpus, retry=chance.choice([0, 2]), preemptible=chance.random() < 0.3)
    elif what == "refused":
        scene.containers.refuse_next.append("no such image")
        await come(scene, chance.choice(PEOPLE), "1")
    elif what == "end":
        scene.containers.exit(workload_id(chance.choice(running)), 0)
    elif what == "fail":
        scene.containers.exit(workload_id(chance.choice(running)), 1)
    elif what == "stop":
        await ask_to_stop(scene.house, [chance.choice(running)], "ann", "stopped by ann")
    elif what == "preempt":
        await scene.house.save([send_back(chance.choice(running), scene.clock(), "for others")])
    elif what == "shrink":
        await shrink(scene, chance.choice(running))
    scene.clock.go_on(timedelta(microseconds=chance.randrange(1, 3 * 3600 * 10**6)))
    await scene.rest()


async def shrink(scene: Scene, session: Session) -> None:
    """To half of each GPU, once, as the reclaim ladder does."""
    if session.seat is None or session.idle_step is IdleStep.SHRUNK:
        return
    half = replace(session.seat, gpus=tuple(replace(gpu, parts=gpu.parts // 2) for gpu in session.seat.gpus))
    made = idle_step(session, IdleStep.SHRUNK, scene.clock(), "shrunk", "idle")
    await scene.house.save([reseat(made, half, scene.clock())])


def held_by_the_log(file: Path, since: datetime, until: datetime, by: str) -> Counter[str]:
    """Own SQL, own sums: a seat is held from `placed` until the session is queued again or ended; parts as asked, halved when shrunk."""
    found: Counter[str] = Counter()
    with sqlite3.connect(file) as database:
        asked = {row[0]: row[1:] for row in database.execute("select id, owner, team, request from sessions")}
        log = database.execute("select session_id, at, what, phase from events where owner <> '' order by number").fetchall()
    open_now: dict[str, tuple[int, int]] = {}
    first, last = ((at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) for at in (since, until))

    def close(session_id: str, at: int) -> None:
        parts, began = open_now.pop(session_id)
        owner, team, _ = asked[session_id]
        name = owner if by == "user" else team or f"user:{owner}"
        found[name] += parts * max(0, min(at, last) - max(began, first))

    for session_id, at, what, phase in log:
        if what == "placed":
            open_now[session_id] = (round(float(json.loads(asked[session_id][2])["share"]) * PARTS), at)
        elif what == "shrunk":
            parts = open_now[session_id][0]
            close(session_id, at)
            open_now[session_id] = (parts // 2, at)
        elif phase in ("queued", "ended") and session_id in open_now:
            close(session_id, at)
    for session_id in list(open_now):
        close(session_id, last)
    return +found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_sums_match_the_log_of_events_to_the_part_and_microsecond(tmp_path: Path, seed: int):
    chance, containers, clock = random.Random(seed), FakeContainers(), HeldClock(NOW)
    for _ in range(3):  # each a server that is started anew on what the last one left
        async with a_house(tmp_path, containers, clock, gpus=4) as scene:
            await scene.rest()
            for _ in range(STEPS // 3):
                await one_thing(scene, chance)
            now = scene.clock()
            stretches = [(NOW, now), (now - 24 * HOUR, now), (NOW + (now - NOW) / 3, NOW + (now - NOW) / 2)]
            for since, until in stretches:
                for by in LedgerBy:
                    found = await ledger_of(scene.house, by, since, until)
                    log = held_by_the_log(tmp_path / "fairy.db", since, found.until, by)
                    assert +Counter({row.name: row.held for row in found.rows}) == log
                    assert sum(row.ahead for row in found.rows) == 0
    with sqlite3.connect(tmp_path / "fairy.db") as database:
        happened = {what for (what,) in database.execute("select distinct what from events")}
    assert happened >= {"placed", "requeued", "refused", "shrunk", "preempted", "exited"}


async def test_one_who_only_waited_is_behind_and_what_befell_sessions_is_counted(tmp_path: Path):
    async with a_house(tmp_path, gpus=1) as scene:
        held = await come(scene, PEOPLE[0], "1")
        await scene.rest()
        await come(scene, PEOPLE[2], "1")
        await scene.later(2 * HOUR)
        await shrink(scene, await scene.now(held))
        scene.clock.go_on(2 * HOUR)
        found = {row.name: row for row in (await ledger_of(scene.house, LedgerBy.USER, NOW)).rows}
        assert {name: row.ahead / (PARTS * 3600 * 10**6) for name, row in found.items()} == {"ann": 1.5, "eve": -1.5}
        assert dict(found["ann"].counts)["shrunk"] == 1
        assert found["ann"].use.used_s is None


async def test_a_stretch_that_has_not_begun_is_refused(tmp_path: Path):
    async with a_house(tmp_path) as scene:
        with pytest.raises(BadInput, match="not before"):
            await ledger_of(scene.house, LedgerBy.USER, NOW + HOUR)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with a_house(tmp_path) as made:
        for name in ("ann", "eve"):
            await made.house.registry.ensure_user(name)
        yield made


@pytest.fixture
async def app(scene: Scene) -> FastAPI:
    return make_app(Context(scene.house, SignInLinks(scene.house.clock), "http://server"))


async def test_everybody_sees_who_held_how_much_and_only_their_own_use(scene: Scene, app: FastAPI):
    await come(scene, PEOPLE[0], "1")
    await come(scene, PEOPLE[2], "0.5")
    await scene.rest()
    scene.clock.go_on(4 * HOUR)
    status, answer = await ask(app, await token_of(scene, "eve"), "/ledger", since="1d")
    assert (status, answer["by"], answer["total"]) == (200, "user", {"held_gpu_hours": 6})
    eve, ann = answer["items"]
    assert (eve["name"], eve["held_gpu_hours"], eve["entitled_gpu_hours"], eve["ahead_gpu_hours"]) == ("eve", 2, 3, -1)
    assert (ann["name"], ann["team"], ann["held_part_us"], ann["used_shown"]) == ("ann", "nlp", 4 * 3600 * 10**12, False)
    assert eve["used_shown"] is True
    assert not any("session" in key for item in answer["items"] for key in item)
    status, answer = await ask(app, await token_of(scene, "eve"), "/ledger", by="team")
    assert [item["name"] for item in answer["items"]] == ["user:eve", "nlp"]
    status, answer = await ask(app, await token_of(scene, "eve"), "/ledger", since="yesterday")
    assert (status, answer["detail"]) == (400, "since: 'yesterday' is no duration")
