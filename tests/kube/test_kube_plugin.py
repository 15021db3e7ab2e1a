"""Credentials from a program of the kubeconfig: a real script, and a server that takes only what it is told to take."""
import asyncio
import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpufairy.engines.kube import plugin as plugin_module
from gpufairy.engines.kube.errors import KubeRefused, KubeSilent
from kube.fake_api import Says, asking, fake_api, no
from waits import until

pytestmark = pytest.mark.slow
V1 = "client.authentication.k8s.io/v1"
# Counts how often it was asked, keeps what it was told, and gives token-1, token-2, …
SCRIPT = """#!/bin/sh
cd "$FOLDER"
echo x >>asked
printf %s "$KUBERNETES_EXEC_INFO" >told
if [ -t 0 ] || read -r line; then echo "has an input" >&2; exit 9; fi
echo "{\\"apiVersion\\": \\"$VERSION\\", \\"kind\\": \\"ExecCredential\\", \\"status\\": {\\"token\\": \\"token-$(wc -l <asked | tr -d ' ')\\"$MORE}}"
"""


def user(folder: Path, *, version: str = V1, expires: datetime | None = None, script: str = SCRIPT, **more: Any) -> dict[str, Any]:
    path = folder / "give-token"
    path.write_text(script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    until = f', "expirationTimestamp": "{expires.strftime("%Y-%m-%dT%H:%M:%SZ")}"' if expires else ""
    env = [{"name": name, "value": value} for name, value in (("FOLDER", str(folder)), ("VERSION", version), ("MORE", until))]
    return {"exec": {"apiVersion": version, "command": "./give-token", "args": ["--cluster", "lab"], "env": env, **more}}


def times_asked(folder: Path) -> int:
    return len((folder / "asked").read_text().splitlines())


def tokens(fake: Any) -> list[str]:
    return [asked.headers["Authorization"] for asked in fake.asked]


@pytest.mark.parametrize("version", [V1, f"{V1}beta1"])
async def test_its_token_is_used_for_all_requests_also_for_fifty_at_once(tmp_path, version):
    async with fake_api(Says()) as fake, asking(fake, tmp_path, user(tmp_path, version=version)) as api:
        await asyncio.gather(*(api.get("/version") for _ in range(50)))
    assert set(tokens(fake)) == {"Bearer token-1"}
    assert times_asked(tmp_path) == 1
    assert json.loads((tmp_path / "told").read_text()) == {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}


async def test_it_is_told_of_the_cluster_where_it_wants_to_know(tmp_path):
    async with fake_api(Says()) as fake, asking(fake, tmp_path, user(tmp_path, provideClusterInfo=True)) as api:
        await api.get("/version")
    assert json.loads((tmp_path / "told").read_text())["spec"] == {"interactive": False, "cluster": {"server": fake.url}}


async def test_a_token_about_to_expire_is_not_used_again(tmp_path):
    soon = datetime.now(UTC) + timedelta(seconds=20)
    async with fake_api(Says()) as fake, asking(fake, tmp_path, user(tmp_path, expires=soon)) as api:
        await api.get("/version")
        await api.get("/version")
    assert tokens(fake) == ["Bearer token-1", "Bearer token-2"]


async def test_one_that_is_good_for_long_is_kept(tmp_path):
    async with fake_api(Says()) as fake, asking(fake, tmp_path, user(tmp_path, expires=datetime.now(UTC) + timedelta(minutes=15))) as api:
        await api.get("/version")
        await api.get("/version")
    assert times_asked(tmp_path) == 1


async def test_after_a_401_it_is_asked_once_more_also_for_what_must_not_be_done_twice(tmp_path):
    async with fake_api(no(401, "Unauthorized"), Says(201, {"metadata": {"name": "a"}})) as fake, asking(fake, tmp_path, user(tmp_path)) as api:
        made = await api.create("/api/v1/namespaces/ml/pods", {"metadata": {"name": "a"}})
    assert made["metadata"]["name"] == "a"
    assert tokens(fake) == ["Bearer token-1", "Bearer token-2"]


async def test_many_who_meet_a_401_at_once_ask_it_once(tmp_path):
    async with fake_api(*[no(401, "Unauthorized")] * 20, Says()) as fake, asking(fake, tmp_path, user(tmp_path)) as api:
        await asyncio.gather(*(api.get("/version") for _ in range(20)))
    assert times_asked(tmp_path) == 2


async def test_a_second_401_is_believed_and_said_in_words(tmp_path):
    async with fake_api(no(401, "Unauthorized", "Unauthorized")) as fake, asking(fake, tmp_path, user(tmp_path)) as api:
        with pytest.raises(KubeRefused, match=r"refused to get pod ml/a: Unauthorized \(401 Unauthorized\)") as told:
            await api.get("/api/v1/namespaces/ml/pods/a")
    assert times_asked(tmp_path) == 2
    assert "of this cluster, and not expired?" in told.value.next_step


async def test_a_plain_token_that_is_refused_is_not_sent_twice(tmp_path):
    async with fake_api(no(401, "Unauthorized")) as fake, asking(fake, tmp_path) as api:
        with pytest.raises(KubeRefused):
            await api.get("/version")
    assert len(fake.asked) == 1


FAULTS = {
    "fails": ("#!/bin/sh\necho 'the SSO session has expired' >&2; exit 3\n", r"ended with 3: the SSO session has expired"),
    "says nothing": ("#!/bin/sh\n", r"gave no ExecCredential"),
    "says something else": ("#!/bin/sh\necho '{\"status\": 5}'\n", r"gave no ExecCredential"),
    "another version": (f'#!/bin/sh\necho \'{{"apiVersion": "{V1}beta1", "status": {{"token": "x"}}}}\'\n', r"its apiVersion is 'client.authentication.k8s.io/v1beta1'"),
    "no token": (f'#!/bin/sh\necho \'{{"apiVersion": "{V1}", "status": {{}}}}\'\n', r"gave neither a token nor a certificate"),
    "two words": (f'#!/bin/sh\necho \'{{"apiVersion": "{V1}", "status": {{"token": "a b"}}}}\'\n', r"its token is empty or no single word"),
    "floods": ("#!/bin/sh\nexec yes\n", r"said more than 1048576 bytes"),
    "no such interpreter": ("#!/none\n", r"cannot be started"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_one_that_gives_no_token_is_silence_with_its_own_words_and_the_hint(tmp_path, fault):
    script, words = fault
    async with fake_api(Says()) as fake, asking(fake, tmp_path, user(tmp_path, script=script, installHint="Sign in with: lab login")) as api:
        with pytest.raises(KubeSilent, match=words) as told:
            await api.get("/version")
    assert (told.value.reason, told.value.sent, told.value.next_step) == ("credentials", False, "Sign in with: lab login")
    assert not fake.asked


async def test_one_that_hangs_with_a_child_is_ended_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(plugin_module, "ANSWER_S", 0.5)
    hangs = f"#!/bin/sh\nsleep 1000 & echo $! >{tmp_path}/child; exit 0\n"
    async with fake_api(Says()) as fake, asking(fake, tmp_path, user(tmp_path, script=hangs)) as api:
        with pytest.raises(KubeSilent, match=r"did not end within 0.5 s"):
            await api.get("/version")
    child = int((tmp_path / "child").read_text())
    state = Path(f"/proc/{child}/stat")
    until(lambda: not state.exists() or state.read_text().split()[2] == "Z", "its child to end", 5)


async def test_it_recovers_by_itself_when_the_program_does(tmp_path):
    told = user(tmp_path, script="#!/bin/sh\nexit 1\n")
    async with fake_api(Says()) as fake, asking(fake, tmp_path, told) as api:
        with pytest.raises(KubeSilent):
            await api.get("/version")
        user(tmp_path)
        assert await api.get("/version") == {}
