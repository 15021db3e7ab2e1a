"""What the client does with answers that a real API server gives seldom: too many requests, failures, nonsense, nothing at all."""
import asyncio
import json
import time

import pytest

from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.engines.kube import http
from gpufairy.engines.kube.access import load_access
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.errors import Cause, KubeRefused, KubeSilent
from gpufairy.engines.kube.words import described
from kube.fake_api import Says, asking, fake_api, no, write_config
from kube.soon import soon

pytestmark = pytest.mark.slow
PODS = "/api/v1/namespaces/ml/pods"
POD = {"metadata": {"name": "train-0"}}
LATER = {"Retry-After": "0"}


async def test_429_is_obeyed_also_for_what_must_not_be_done_twice(tmp_path):
    async with fake_api(no(429, headers=LATER), no(429, headers=LATER), Says(201, POD)) as fake, asking(fake, tmp_path) as api:
        assert await api.create(PODS, POD) == POD
    assert len(fake.asked) == 3


async def test_the_time_that_it_names_is_waited(tmp_path):
    async with fake_api(no(429, headers={"Retry-After": "1"}), Says()) as fake, asking(fake, tmp_path) as api:
        began = time.monotonic()
        await api.get("/version")
        assert time.monotonic() - began >= 1


async def test_a_server_that_says_429_for_ever_is_believed_after_five_times(tmp_path):
    async with fake_api(no(429, "TooManyRequests", "too many requests", headers=LATER)) as fake, asking(fake, tmp_path) as api:
        with pytest.raises(KubeRefused, match=r"refused to list pods in namespace ml: too many requests \(429 TooManyRequests\)") as told:
            _ = [one async for one in api.list(PODS)]
    assert len(fake.asked) == 5
    assert "try again in a moment" in told.value.next_step


async def test_a_429_that_names_no_time_is_an_answer(tmp_path):
    """As that of a disruption budget is."""
    budget = no(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
    async with fake_api(budget) as fake, asking(fake, tmp_path) as api:
        with pytest.raises(KubeRefused, match=r"refused to create eviction of pod ml/train-0") as told:
            await api.create(f"{PODS}/train-0/eviction", POD)
    assert len(fake.asked) == 1
    assert "PodDisruptionBudget protects it" in told.value.next_step


@pytest.mark.parametrize("passing", [no(503, headers=LATER), no(500, "ServerTimeout", headers=LATER), no(502), no(504), Says(cuts=True)], ids=["503", "500 later", "502", "504", "cut"])
async def test_what_may_be_asked_twice_is(tmp_path, passing):
    async with fake_api(passing, passing, Says(200, POD)) as fake, asking(fake, tmp_path) as api:
        assert await api.get(f"{PODS}/train-0") == POD
        assert await api.apply(f"{PODS}/train-0", POD, manager="fairy") == POD
        fake.answers = [passing, Says(200, {})]
        await api.delete(f"{PODS}/train-0", uid="u1")


@pytest.mark.parametrize("failing", [no(503, headers=LATER), no(500, headers=LATER), no(504)], ids=["503", "500", "504"])
@pytest.mark.parametrize("act", ["create", "patch", "delete"])
async def test_what_must_not_be_done_twice_is_asked_once(tmp_path, failing, act):
    async with fake_api(failing, Says()) as fake, asking(fake, tmp_path) as api:
        with pytest.raises(KubeRefused):
            await {"create": lambda: api.create(PODS, POD), "patch": lambda: api.patch(f"{PODS}/a", [], kind="json"), "delete": lambda: api.delete(f"{PODS}/a")}[act]()
    assert len(fake.asked) == 1


async def test_a_create_whose_answer_was_lost_is_not_asked_again_and_said_to_be_open(tmp_path):
    async with fake_api(Says(cuts=True), Says(201, POD)) as fake, asking(fake, tmp_path) as api:
        with pytest.raises(KubeSilent, match=r"broke off .*, when asked to create pod ml/train-0") as told:
            await api.create(PODS, POD)
    assert (len(fake.asked), told.value.sent, told.value.reason) == (1, True, "cut")
    assert "may have been done or not" in told.value.next_step


async def test_nobody_at_the_address_is_silence_after_a_few_tries(tmp_path):
    async with fake_api(Says()) as fake:
        pass
    async with asking(fake, tmp_path) as api:
        with pytest.raises(KubeSilent, match=r"^The API server at 127.0.0.1:\d+ cannot be reached \(.*\), when asked to create pod ml/train-0\.$") as told:
            await api.create(PODS, POD)
    assert (told.value.sent, told.value.reason, told.value.status) == (False, "unreachable", None)


async def test_one_that_comes_back_soon_is_met_by_the_same_call(tmp_path):
    async with fake_api(Says()) as fake:
        pass
    port = int(fake.url.rpartition(":")[2])
    async with asking(fake, tmp_path) as api:
        asked = asyncio.create_task(api.create(PODS, POD))
        await asyncio.sleep(0.05)
        async with fake_api(Says(201, POD), port=port):
            assert await asked == POD


async def test_no_answer_within_the_time_is_silence(tmp_path, monkeypatch):
    monkeypatch.setattr(http, "ATTEMPT_S", 0.2)
    async with fake_api(Says(lines=(b"{",), stays=True)) as fake, asking(fake, tmp_path) as api:
        with pytest.raises(KubeSilent, match=r"gave no answer in time, when asked to create pod ml/train-0") as told:
            await api.create(PODS, POD)
    assert (told.value.reason, len(fake.asked)) == ("timeout", 1)


async def test_all_tries_together_have_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(http, "CALL_S", 0.5)
    async with fake_api(no(429, headers={"Retry-After": "9"})) as fake, asking(fake, tmp_path) as api:
        with pytest.raises(KubeRefused):
            await api.get("/version")
    assert len(fake.asked) == 1


async def test_calls_beyond_the_limit_wait_their_turn_and_one_that_waits_too_long_was_not_sent(tmp_path, monkeypatch):
    monkeypatch.setattr(http, "AT_ONCE", 2)
    async with fake_api(Says(lines=(b"{",), stays=True)) as fake, asking(fake, tmp_path) as api:
        first = [asyncio.create_task(api.create(PODS, POD)) for _ in range(2)]
        await soon(lambda: len(fake.asked) == 2, "both to be asked")
        monkeypatch.setattr(http, "CALL_S", 0.2)
        with pytest.raises(KubeSilent, match="too many calls wait") as told:
            await api.create(PODS, POD)
        assert (told.value.sent, len(fake.asked)) == (False, 2)
        for task in first:
            task.cancel()
        await asyncio.gather(*first, return_exceptions=True)


@pytest.mark.parametrize("body", [b"<html>sign in</html>", b"[" * 100_000], ids=["HTML", "too deep"])
async def test_an_answer_that_is_no_json_is_silence(tmp_path, body):
    async with fake_api(Says(200, body)) as fake, asking(fake, tmp_path) as api:
        with pytest.raises(KubeSilent, match=r"gave an answer that is no JSON") as told:
            await api.create(PODS, POD)
    assert told.value.reason == "nonsense"


async def test_a_redirect_is_not_followed_with_our_token(tmp_path):
    async with fake_api(Says()) as thief, fake_api(Says(307, {}, {"Location": thief.url})) as fake, asking(fake, tmp_path) as api:
        with pytest.raises(KubeRefused):
            await api.get("/version")
    assert not thief.asked


async def test_a_refusal_has_its_causes_and_is_one_of_the_engines(tmp_path):
    details = {"causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"}, "odd"]}
    async with fake_api(no(422, "Invalid", "Pod is invalid", details=details)) as fake, asking(fake, tmp_path) as api:
        with pytest.raises(EngineRefused) as told:
            await api.create(PODS, POD)
    assert isinstance(told.value, KubeRefused)
    assert (told.value.status, told.value.reason, told.value.what, told.value.message) == (422, "Invalid", "create pod ml/train-0", "Pod is invalid")
    assert told.value.causes == (Cause("FieldValueRequired", "Required value", "spec.containers"),)
    assert issubclass(KubeSilent, EngineSilent)


async def test_each_call_has_an_id_under_which_the_audit_log_knows_it(tmp_path):
    async with fake_api(no(404, "NotFound")) as fake, asking(fake, tmp_path) as api:
        with pytest.raises(KubeRefused) as told:
            await api.get("/version")
    assert told.value.request_id == fake.asked[0].headers["Audit-Id"]


NEXT = {
    "exceeded quota: gpus, requested: 1, used: 8, limited: 8": (403, "ResourceQuota"),
    'pods "a" is forbidden: violates PodSecurity "restricted:latest"': (403, "pod-security.kubernetes.io/enforce"),
    'admission webhook "policy.lab.test" denied the request: no': (400, "A rule of this cluster says so"),
    'Internal error occurred: failed calling webhook "x": no endpoints': (500, "A webhook of this cluster does not answer"),
    'pods is forbidden: User "x" cannot list resource "pods"': (403, "Grant that verb on that resource to the account of kubeconfig"),
}


@pytest.mark.parametrize("message", NEXT)
async def test_each_kind_of_refusal_says_what_to_do(tmp_path, message):
    status, words = NEXT[message]
    async with fake_api(no(status, "Forbidden", message)) as fake, asking(fake, tmp_path) as api:
        with pytest.raises(KubeRefused) as told:
            await api.create(PODS, POD)
    assert words in told.value.next_step
    assert message in str(told.value)


async def test_a_list_whose_place_was_forgotten_goes_on_where_the_server_says(tmp_path):
    first = Says(200, {"metadata": {"continue": "c1"}, "items": [POD]})
    gone = no(410, "Expired", "too old", metadata={"continue": "c2"})
    last = Says(200, {"metadata": {}, "items": [{"metadata": {"name": "b", "managedFields": [1]}}]})
    async with fake_api(first, gone, last) as fake, asking(fake, tmp_path) as api:
        assert [one["metadata"] async for one in api.list(PODS, limit=1)] == [{"name": "train-0"}, {"name": "b"}]
    assert [asked.query.get("continue") for asked in fake.asked] == [None, "c1", "c2"]


async def test_absent_is_fine_to_delete_and_so_is_another_of_the_same_name(tmp_path):
    other = no(409, "Conflict", "Precondition failed: UID in precondition: u1, UID in object meta: u2")
    async with fake_api(no(404, "NotFound"), other) as fake, asking(fake, tmp_path) as api:
        await api.delete(f"{PODS}/a", grace_s=0)
        await api.delete(f"{PODS}/a", uid="u1")
        with pytest.raises(KubeRefused):
            await api.delete(f"{PODS}/a")
    assert fake.asked[0].body["gracePeriodSeconds"] == 0
    assert fake.asked[1].body["preconditions"] == {"uid": "u1"}


async def test_after_it_is_closed_nobody_is_asked(tmp_path):
    async with fake_api(Says()) as fake, asking(fake, tmp_path) as api:
        await api.close()
        with pytest.raises(KubeSilent, match="our side is closed"):
            await api.get("/version")


@pytest.mark.parametrize(("method", "path", "name", "words"), [
    ("GET", "/api/v1/pods", "", "list pods"), ("GET", "/api/v1/namespaces/ml", "", "get namespace ml"), ("POST", "/api/v1/namespaces", "ml", "create namespace ml"),
    ("PATCH", "/apis/apps/v1/namespaces/ml/deployments/web/scale", "", "change scale of deployment ml/web"), ("DELETE", "/apis/networking.k8s.io/v1/namespaces/ml/networkpolicies/a", "", "delete networkpolicy ml/a"),
    ("GET", "/apis/storage.k8s.io/v1/storageclasses/fast", "", "get storageclass fast"), ("GET", "/version", "", "get /version"), ("DELETE", "/api/v1/namespaces/ml/pods", "", "delete pods in namespace ml"),
])  # fmt: skip
def test_requests_are_named_in_words(method, path, name, words):
    assert described(method, path, name) == words


async def test_a_version_nobody_knows_is_said(tmp_path):
    async with fake_api(Says(200, {"major": "1", "minor": "34+"}), Says(200, {"major": "x"})) as fake, asking(fake, tmp_path) as api:
        assert await api.version() == (1, 34)
        with pytest.raises(KubeSilent, match="tells no version"):
            await api.version()


async def test_without_a_user_nothing_is_proved(tmp_path):
    async with fake_api(Says()) as fake:
        path = write_config(tmp_path, fake.url, {})
        told = json.loads(path.read_text())
        del told["contexts"][0]["context"]["user"]
        path.write_text(json.dumps(told))
        async with KubeApi(load_access(path, None, {})) as api:
            await api.get("/version")
    assert "Authorization" not in fake.asked[0].headers
