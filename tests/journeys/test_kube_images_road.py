"""Images on Kubernetes, on a real kubelet and with a real registry that wants a password: rules, commit, approval, swap, and what goes wrong."""
import asyncio
import base64
import gzip
import io
import json
import tarfile
from collections.abc import Iterator

import pytest
from bench.server import LiveServer
from kube_scene import kube_server

from gpufairy.client.errors import Problem
from gpufairy.engines.registry.blobs import Repository
from gpufairy.engines.registry.build import read_base
from gpufairy.engines.registry.http import RegistryHttp
from gpufairy.engines.registry.logins import RegistryAccess
from images import busybox_layer
from kube.cluster import Cluster
from own_registry import OwnRegistry, logins_file, own_registry, put_image_now
from waits import until, wait_for_state

pytestmark = [pytest.mark.kubernetes, pytest.mark.system, pytest.mark.slow]

LIMIT_S = 90.0
IMAGES = """
default = "{registry}/lab/base:1"
allow = ["{registry}/lab/*"]
"""
KUBERNETES = """
registry = "{registry}/fairy"
registry_logins = "{logins}"
pull_secret = "registry"
"""


@pytest.fixture(scope="module")
def registry() -> Iterator[OwnRegistry]:
    with own_registry(password=True) as made:
        logins_file(made.folder, made.host)
        layer = busybox_layer()
        for folder in ("opt", "opt/lab", "opt/lab/gone"):
            layer.folder(folder, 0o1777 if folder == "opt/lab" else 0o777)
        layer.folder("opt/team", 0o777)
        for path in ("opt/team/old", "opt/team/stays"):
            layer.file(path, b"of the image\n", 0o666)
        put_image_now(made.host, "lab/base", "1", layer.finished(), access(made))
        yield made


def access(registry: OwnRegistry) -> RegistryAccess:
    return RegistryAccess(registry.folder / "logins.json")


@pytest.fixture(scope="module")
def live(cluster_with_tools: Cluster, registry: OwnRegistry) -> Iterator[LiveServer]:
    logins = registry.folder / "logins.json"

    def put_secret(namespace: str) -> None:
        secret = base64.b64encode(logins.read_bytes()).decode()
        cluster_with_tools.ask("POST", f"/api/v1/namespaces/{namespace}/secrets", {
            "metadata": {"name": "registry"}, "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": secret},
        })  # fmt: skip

    images, kubernetes = IMAGES.format(registry=registry.host), KUBERNETES.format(registry=registry.host, logins=logins)
    with kube_server(cluster_with_tools, images=images, kubernetes=kubernetes, prepare=put_secret) as started:
        yield started


@pytest.fixture(scope="module")
def people(live):
    with live.client() as admin:
        for name in ("kim", "lee"):
            admin.add_user({"name": name, "role": "user"})
        yield {name: live.client(admin.create_token({"user": name})["token"]) for name in ("kim", "lee")}


def begin(client, name: str, script: str, **more):
    """A session that does something, and then waits for its end."""
    body = {"name": name, "kind": "batch", "gpus": "0", "memory": "64MiB", "cpus": 0.05, "command": ["sh", "-c", f"{script}; echo DONE; sleep 1000"], **more}
    client.submit(body)
    session = wait_for_state(client, name, "RUNNING", "ENDED", limit_s=LIMIT_S)
    assert session["state"] == "RUNNING", session
    until(lambda: "DONE" in said(client, name), f"{name} to have done its work", LIMIT_S)
    return session


def said(client, name: str) -> str:
    return b"".join(client.logs(name)).decode()


def in_registry(registry: OwnRegistry, name: str, tag: str):
    async def look():
        http = RegistryHttp(access(registry))
        try:
            repository = Repository(http, registry.host, name)
            base = await read_base(repository, tag, "amd64")
            return base, [] if base is None else [gzip.decompress(await repository.read(layer.digest)) for layer in base.layers]
        finally:
            await http.close()

    return asyncio.run(look())


def names(layer: bytes) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(layer)) as opened:
        return {one.name for one in opened.getmembers()}


@pytest.fixture(scope="module")
def made(live, people):
    """Of a session that changed files in its image, and others that are no part of it."""
    script = (
        "echo made > /opt/team/new; echo changed > /opt/team/stays; rm /opt/team/old; echo mine > ~/at-home; echo x > /tmp/scratch; "
        "echo $FAIRY_SESSION > /results/r"
    )
    begin(people["kim"], "work", script)
    return people["kim"].commit("work", "kim/tools:1")


def test_the_rules_of_images_hold_on_kubernetes_too(live, people):
    with pytest.raises(Problem, match="not one of those offered"):
        people["kim"].submit({"name": "no", "gpus": "0", "image": "docker.io/fairy-test/busybox:1", "command": ["true"]})


def test_the_images_of_the_nodes_are_listed(live, people, made):
    listed = {one["name"]: one for one in people["kim"].images()}
    assert "fairy-test/busybox:1" in listed
    assert listed["kim/tools:1"]["made"]["owner"] == "kim"


def test_an_image_of_a_session_is_what_it_changed_and_nothing_else(registry, made):
    base, layers = in_registry(registry, "fairy/kim/tools", "1")
    assert len(layers) == 2
    assert names(layers[1]) == {"opt", "opt/team", "opt/team/new", "opt/team/stays", "opt/team/.wh.old"}
    assert base.config["config"]["Env"] == ["PATH=/usr/bin:/bin", "FROM_BASE=yes"]
    assert base.config["config"]["Labels"] == {"of": "base"}
    assert b"FAIRY" not in json.dumps(base.config).encode() + layers[1]
    assert (made["state"], made["made_from"]) == ("waiting", f"{registry.host}/lab/base:1")


def test_others_use_it_when_it_is_approved_and_find_what_was_made_in_it(live, people, made, registry):
    asked = {"image": "kim/tools:1"}
    for name in ("kim/tools:1", f"{registry.host}/fairy/kim/tools:1"):
        with pytest.raises(Problem, match="waits for an admin's approval"):
            people["lee"].submit({"name": "early", "gpus": "0", "image": name, "command": ["true"]})
    with live.client() as admin:
        admin.decide_image("kim/tools:1", True)
    session = begin(people["lee"], "second", "cat /opt/team/new /opt/team/stays; ls /opt/team ~ /tmp; echo more > /opt/team/more", **asked)
    assert session["request"]["image"] == "kim/tools:1"
    assert said(people["lee"], "second").split() == ["made", "changed", "/home/lee:", "/opt/team:", "new", "stays", "/tmp:", "DONE"]
    people["lee"].commit("second", "lee/more:1")
    _, layers = in_registry(registry, "fairy/lee/more", "1")
    assert [names(layer) for layer in layers[2:]] == [{"opt", "opt/team", "opt/team/more"}]


def test_a_swap_keeps_what_it_was_and_starts_the_other(live, people, made, registry):
    before = people["kim"].session("work")
    people["kim"].swap("work", "kim/tools:1")
    until(lambda: people["kim"].session("work")["attempt"] == 2, "the second attempt", LIMIT_S)
    after = wait_for_state(people["kim"], "work", "RUNNING", limit_s=LIMIT_S)
    assert after["request"]["image"] == "kim/tools:1"
    assert in_registry(registry, "fairy/gpufairy-kept", f"{before['id']}-1")[0] is not None


def test_a_wrong_password_and_a_registry_that_is_away_are_sentences(live, people, made, registry):
    begin(people["kim"], "third", "true")
    good = (registry.folder / "logins.json").read_text()
    try:
        logins_file(registry.folder, registry.host, password="canary-wrong")
        with pytest.raises(Problem, match="does not let us") as refused:
            people["kim"].commit("third", "kim/third:1")
        assert "canary" not in str(refused.value)
        assert "registry_logins" in refused.value.next_step
    finally:
        (registry.folder / "logins.json").write_text(good)
    registry.stop()
    try:
        with pytest.raises(Problem, match="does not answer"):
            people["kim"].commit("third", "kim/third:1")
    finally:
        registry.start()
    assert people["kim"].commit("third", "kim/third:1")["name"] == "kim/third:1"


def test_what_is_removed_is_gone_from_the_registry(live, people, made, registry):
    people["kim"].remove_image("kim/third:1")
    assert in_registry(registry, "fairy/kim/third", "1")[0] is None
    assert "kim/third:1" not in {one["name"] for one in people["kim"].images()}


def test_nothing_is_left_of_looking_into_images(live, cluster_with_tools):
    path = f"/api/v1/namespaces/{live.namespace}/pods?labelSelector=gpufairy.io/role=look"
    until(lambda: not cluster_with_tools.ask("GET", path)["items"], "the pods of looks to go", LIMIT_S)


def test_no_secret_is_in_any_log(live):
    assert "canary" not in live.log
