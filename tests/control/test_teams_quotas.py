"""Teams and quotas in the house: kept over a restart, refused in words where they cannot be, and in force from the next start on."""
import json
from datetime import timedelta

import pytest
from house_scene import a_house

from gpufairy.api.app import make_app
from gpufairy.api.context import Context
from gpufairy.api.teams import quotas_shape, rule_of, team_shape
from gpufairy.control.door import submit
from gpufairy.control.links import SignInLinks
from gpufairy.control.registry import Caller
from gpufairy.core.errors import BadInput, Conflict, NoSuchThing, QuotaExceeded
from gpufairy.core.people import Role
from gpufairy.core.quota_rules import Quota, rules_for
from gpufairy.core.share import PARTS
from gpufairy.wire.submit import SubmitBody
from gpufairy.wire.teams import QuotaBody

pytestmark = pytest.mark.slow

HOUR = timedelta(hours=1)


async def people(scene, **teams):
    for name, team in teams.items():
        await scene.house.registry.add_user(name, Role.USER, team)


async def submits(scene, user, **fields):
    body = SubmitBody.model_validate({"command": ["work"], "gpus": "1", **fields})
    return (await submit(scene.house, Caller(scene.house.registry.user(user), "full"), body, {}, None))[0]


async def sets(scene, of, gpu_kind="*", **bounds):
    body = QuotaBody.model_validate({"of": of, "gpu_kind": gpu_kind, **bounds})
    return await scene.house.quotas.set(body.of, body.gpu_kind, body.changed, scene.house.nodes)


async def states(scene, *sessions):
    return [(await scene.now(session)).state for session in sessions]


async def test_a_team_is_there_because_it_was_made_or_because_somebody_is_in_it_and_its_share_is_kept(tmp_path):
    async with a_house(tmp_path) as scene:
        await people(scene, ann="nlp", bob=None)
        await scene.house.teams.add("vision", 2.0)
        await scene.house.registry.change_user("ann", share=3.0)
        with pytest.raises(Conflict, match="there is a team 'vision' already"):
            await scene.house.teams.add("vision", 1.0)
        await scene.house.teams.add("nlp", 1.5)  # which was free text until now
    async with a_house(tmp_path) as scene:
        assert [(team.name, team.share) for team in scene.house.teams.all()] == [("nlp", 1.5), ("vision", 2.0)]
        weights = scene.house.cluster().weights
        assert (weights.teams, weights.users) == ({"nlp": 1.5, "vision": 2.0}, {"ann": 3.0})
        shown = team_shape(scene.house, scene.house.teams.team("nlp"))
        assert (shown["users"], shown["share"], shown["gpus_held"]) == (["ann"], 1.5, 0)


@pytest.mark.parametrize("share", [0.0, -2.0, float("nan"), float("inf")])
async def test_a_share_that_is_no_part_of_anything_is_refused(tmp_path, share):
    async with a_house(tmp_path) as scene:
        await people(scene, ann="nlp")
        for change in (scene.house.teams.change("nlp", share), scene.house.registry.change_user("ann", share=share)):
            with pytest.raises(BadInput, match="share"):
                await change
        assert scene.house.cluster().weights.teams == {}


async def test_a_team_that_somebody_is_in_stays_and_one_that_goes_takes_its_quotas_along(tmp_path):
    async with a_house(tmp_path) as scene:
        await people(scene, ann="nlp")
        await sets(scene, "team:nlp", gpus=1)
        with pytest.raises(Conflict, match="in team nlp are still ann"):
            await scene.house.teams.remove("nlp")
        await scene.house.registry.change_user("ann", team="")
        with pytest.raises(NoSuchThing, match="no team 'nlp'"):
            await scene.house.teams.remove("nlp")
        await scene.house.teams.add("nlp", 1.0)
        await scene.house.teams.remove("nlp")
        await scene.house.quotas.read_again()
        assert scene.house.quotas.all() == ()


async def test_use_is_kept_for_the_owner_and_for_the_team_alike_in_store_and_memory(tmp_path):
    async with a_house(tmp_path) as scene:
        await people(scene, ann="nlp")
        first = await submits(scene, "ann")
        await scene.rest()
        await scene.later(HOUR)
        await scene.stop(first)
        await scene.rest()
        stored = await scene.house.store.sessions.usage()
        assert set(stored) == {"ann", "team:nlp"}
        assert stored == dict(scene.house.cluster().usage)
        assert stored["team:nlp"].gpu_seconds == pytest.approx(3600, rel=0.01)


async def test_a_quota_binds_at_the_next_start_is_told_in_why_and_lets_go_when_one_ends(tmp_path):
    async with a_house(tmp_path) as scene:
        await people(scene, ann="nlp", bob="nlp")
        await sets(scene, "team:nlp", gpus=1)
        first, second = await submits(scene, "ann"), await submits(scene, "bob")
        await scene.rest()
        assert await states(scene, first, second) == ["RUNNING", "PENDING"]
        why = scene.house.plan.refusals_of(await scene.now(second))[0].why
        assert why == "team nlp holds 1 of its 1 GPUs; 1 asked. It starts when one of the team's ends; with --preemptible it may borrow."
        await scene.stop(first)
        await scene.rest()
        assert await states(scene, second) == ["RUNNING"]


async def test_gpu_hours_of_the_week_are_known_after_a_restart_and_forgiven_after_a_week(tmp_path):
    async with a_house(tmp_path) as scene:
        await people(scene, ann=None)
        await sets(scene, "user:*", gpu_hours=2)
        first = await submits(scene, "ann")
        await scene.rest()
        await scene.later(3 * HOUR)
        await scene.stop(first)
        await scene.rest()
        clock = scene.clock
    async with a_house(tmp_path, scene.containers, clock) as scene:
        [shown] = quotas_shape(scene.house, rules_for(scene.house.quotas.all(), "ann", None))
        assert (shown["of"], shown["who"], shown["used"]) == ("user:*", "user:ann", {"gpus": 0, "gpu_hours": 3.0, "sessions": 0})
        second = await submits(scene, "ann")
        await scene.rest()
        assert await states(scene, second) == ["PENDING"]
        await scene.later(timedelta(days=7))
        assert await states(scene, second) == ["RUNNING"]


async def test_what_could_never_start_is_refused_before_it_is_written(tmp_path):
    async with a_house(tmp_path, gpus=4) as scene:
        await people(scene, ann="nlp")
        await sets(scene, "user:ann", gpus=2)
        waiting = await submits(scene, "ann", gpus="2")
        scene.house.quotas.check(waiting, scene.house.nodes)
        await sets(scene, "team:*", gpus=1)
        with pytest.raises(QuotaExceeded, match="team nlp may hold 1 GPU at once; 2 asked"):
            scene.house.quotas.check(waiting, scene.house.nodes)


async def test_what_a_quota_does_not_say_stays_and_none_takes_a_bound_away(tmp_path):
    async with a_house(tmp_path) as scene:
        await people(scene, ann=None)
        await sets(scene, "user:ann", gpus=1.5, sessions=5)
        assert await sets(scene, "user:ann", gpu_hours="10") == Quota("user:ann", "*", 3 * PARTS // 2, 10.0, 5)
        assert await sets(scene, "user:ann", gpus="none", sessions="2") == Quota("user:ann", "*", None, 10.0, 2)
        assert await sets(scene, "user:ann", "a100", gpus=0) == Quota("user:ann", "A100", 0)
        await scene.house.quotas.unset("user:ann", "a100")
    async with a_house(tmp_path) as scene:
        assert scene.house.quotas.all() == (Quota("user:ann", "*", None, 10.0, 2),)
        with pytest.raises(NoSuchThing, match="no quota of 'user:ann' for 'H200'"):
            await scene.house.quotas.unset("user:ann", "H200")


@pytest.mark.parametrize(
    ("of", "bounds", "error", "found"),
    [
        ("user:anne", {"gpus": 1}, NoSuchThing, "no user 'anne'.*did you mean ann"),
        ("team:nlpp", {"gpus": 1}, NoSuchThing, "no team 'nlpp'.*did you mean nlp"),
        ("user:ann", {"gpus": 1, "gpu_kind": "A100-40"}, NoSuchThing, "no GPU here is of kind 'A100-40'"),
        ("ann", {"gpus": 1}, BadInput, "of: found 'ann'"),
        ("user:ann", {"gpus": -1}, BadInput, "gpus: '-1' is not between 0"),
        ("user:ann", {"gpu_hours": "nan"}, BadInput, "gpu_hours: 'nan' is not between 0"),
        ("user:ann", {"sessions": 1.5}, BadInput, "sessions: 1.5 is no whole number"),
        ("user:ann", {"gpus": 2, "gpu_hours": 0}, BadInput, "2 GPUs and 0 GPU-hours a week contradict"),
        ("user:ann", {}, BadInput, "found no bound"),
    ],
)
async def test_a_quota_that_cannot_be_is_refused_in_words(tmp_path, of, bounds, error, found):
    async with a_house(tmp_path) as scene:
        await people(scene, ann="nlp")
        with pytest.raises(error, match=found) as refused:
            await sets(scene, of, **bounds)
        assert refused.value.next_step
        assert scene.house.quotas.all() == ()


async def test_of_two_quotas_the_smaller_counts_and_that_is_noted(tmp_path):
    async with a_house(tmp_path) as scene:
        await people(scene, ann="nlp")
        await sets(scene, "team:nlp", gpus=1)
        quota = await sets(scene, "user:ann", gpus=2)
        [shown] = quotas_shape(scene.house, [rule_of(quota)])
        assert shown["notes"] == ["1 GPUs by the quota of team:nlp, any kind: that one, the smaller, counts"]


async def asks(scene, user, method, path, body=None, query=""):
    """The API's answer to them: status, and what it says."""
    app = make_app(Context(scene.house, SignInLinks(scene.house.clock), "http://server"))
    token = (await scene.house.registry.create_token(user, "test", "full", None))[1]
    said, sent = [], json.dumps(body).encode()

    async def receive():
        return {"type": "http.request", "body": sent if body is not None else b"", "more_body": False}

    async def send(message):
        said.append(message)

    headers = {"authorization": f"Bearer {token}", "content-type": "application/json", "host": "server"}
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http", "path": f"/api/v1{path}",
        "raw_path": f"/api/v1{path}".encode(), "query_string": query.encode(), "root_path": "", "client": ("127.0.0.1", 1),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()], "server": ("server", 80), "state": {},
    }  # fmt: skip
    await app(scope, receive, send)
    told = b"".join(message.get("body", b"") for message in said[1:])
    return said[0]["status"], json.loads(told) if told else None


async def test_users_see_their_team_and_the_quotas_that_count_for_them_and_change_none(tmp_path):
    async with a_house(tmp_path) as scene:
        await people(scene, ann="nlp", bob="vision")
        await scene.house.registry.add_user("boss", Role.ADMIN, None)
        for of in ("user:*", "user:bob", "team:vision", "team:nlp"):
            assert (await asks(scene, "boss", "PUT", "/quotas", {"of": of, "gpus": 2, "sessions": 3}))[0] == 200
        assert [team["name"] for team in (await asks(scene, "ann", "GET", "/teams"))[1]["items"]] == ["nlp"]
        assert (await asks(scene, "ann", "GET", "/teams/vision"))[0] == 404
        seen = (await asks(scene, "ann", "GET", "/quotas"))[1]["items"]
        assert [(quota["of"], quota["who"]) for quota in seen] == [("user:*", "user:ann"), ("team:nlp", "team:nlp")]
        assert (await asks(scene, "ann", "GET", "/quotas", query="user=bob"))[0] == 403
        assert len((await asks(scene, "boss", "GET", "/quotas"))[1]["items"]) == 4
        assert [quota["of"] for quota in (await asks(scene, "boss", "GET", "/quotas", query="user=bob"))[1]["items"]] == ["user:bob", "team:vision"]
        for method, path in (("PUT", "/quotas"), ("DELETE", "/quotas"), ("POST", "/teams"), ("PATCH", "/teams/nlp"), ("DELETE", "/teams/nlp")):
            assert (await asks(scene, "ann", method, path, {}, "of=user:ann"))[0] == 403


async def test_an_admin_makes_changes_and_removes_teams_and_takes_quotas_away(tmp_path):
    async with a_house(tmp_path) as scene:
        await scene.house.registry.add_user("boss", Role.ADMIN, None)
        status, made = await asks(scene, "boss", "POST", "/teams", {"name": "nlp", "share": 2})
        assert (status, made["share"], made["users"]) == (201, 2, [])
        assert (await asks(scene, "boss", "PATCH", "/teams/nlp", {"share": 0.5}))[1]["share"] == 0.5
        assert (await asks(scene, "boss", "PATCH", "/users/boss", {"team": "nlp", "share": 4}))[1]["share"] == 4
        assert (await asks(scene, "boss", "PUT", "/quotas", {"of": "team:nlp", "gpus": 1}))[0] == 200
        assert (await asks(scene, "boss", "DELETE", "/quotas", query="of=team%3Anlp"))[0] == 204
        assert (await asks(scene, "boss", "DELETE", "/quotas", query="of=team%3Anlp"))[0] == 404
        assert (await asks(scene, "boss", "DELETE", "/teams/nlp"))[0] == 409
        assert (await asks(scene, "boss", "PATCH", "/users/boss", {"team": ""}))[0] == 200
        assert (await asks(scene, "boss", "DELETE", "/teams/nlp"))[0] == 204
        assert (await asks(scene, "boss", "POST", "/teams", {"name": "nlp", "share": -1}))[0] == 400
