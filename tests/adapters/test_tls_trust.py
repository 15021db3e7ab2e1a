"""Whom we believe by TLS, on every Python: certificates without key identifiers too, and never a stranger's, an ended one or another's."""
import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from endpoints import http_endpoint, server_tls, smtp_endpoint
from gpufairy.client import Fairy
from gpufairy.client.aio import AsyncFairy
from gpufairy.client.errors import ServerNotReached
from gpufairy.core.errors import EngineSilent, NotDelivered
from gpufairy.core.letter import Item, Letter
from gpufairy.couriers.make import make_courier
from gpufairy.engines.kube.access import load_access
from gpufairy.engines.kube.http import Call, Http
from gpufairy.engines.registry.http import RegistryHttp
from gpufairy.node.doctor_ask import page
from gpufairy.node.kube_access import in_cluster
from gpufairy.node.kube_pods import listed_pods
from gpufairy.wire.alerts import ChannelConfig
from gpufairy.wire.tls import trust_authorities, trust_machine
from kube.certificates import Authority

ITEM = Item("gpu_xid", "firing", "critical", "XID 79", "Look at it.", "gpu01", "gpu01 GPU 0 XID 79", "abc", "2026-11-15T08:00:00Z")
BOTH = pytest.mark.parametrize("has_identifiers", [True, False], ids=["with key identifiers", "without"])
PODS = json.dumps({"kind": "PodList", "metadata": {}, "items": []}).encode()


@contextlib.contextmanager
def served(folder: Path) -> Iterator[int]:
    """The port of an HTTPS server that answers everybody with an empty list of pods."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(PODS)))
            self.end_headers()
            self.wfile.write(PODS)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "server.crt", folder / "server.key")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def trusted_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """As if an admin had added this authority to the machine's own."""

    def add(authority: Path) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        trust_machine.cache_clear()

    yield add
    trust_machine.cache_clear()


def a_server(folder: Path, has_identifiers: bool, address: str = "127.0.0.1", *, has_ended: bool = False) -> None:
    Authority(folder, has_identifiers=has_identifiers).server("server", address, has_ended=has_ended)
    (folder / "token").write_text("secret\n")


def a_kubeconfig(folder: Path, port: int) -> Path:
    told = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca.crt"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    (folder / "config").write_text(json.dumps(told))
    return folder / "config"


@BOTH
async def test_the_server_reaches_a_cluster_whose_authority_is_of_either_sort(tmp_path, has_identifiers):
    a_server(tmp_path, has_identifiers)
    with served(tmp_path) as port:
        cluster = Http(load_access(a_kubeconfig(tmp_path, port), None, {}), "test")
        await cluster.open()
        try:
            assert (await cluster.whole(Call("GET", "/api/v1/pods")))["kind"] == "PodList"
        finally:
            await cluster.close()


@BOTH
def test_an_agent_reaches_a_cluster_whose_authority_is_of_either_sort(tmp_path, has_identifiers):
    a_server(tmp_path, has_identifiers)
    with served(tmp_path) as port:
        access = in_cluster({"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}, tmp_path)
        assert listed_pods(access, "gpu01") == []


@BOTH
@pytest.mark.parametrize("kind", ["a stranger", "one that has ended", "another host"])
def test_a_certificate_that_proves_nothing_is_refused_whatever_its_form(tmp_path, has_identifiers, kind):
    a_server(tmp_path, has_identifiers, "127.0.0.2" if kind == "another host" else "127.0.0.1", has_ended=kind == "one that has ended")
    if kind == "a stranger":
        (tmp_path / "theirs").mkdir()
        Authority(tmp_path / "theirs", has_identifiers=has_identifiers)
        (tmp_path / "theirs" / "ca.crt").rename(tmp_path / "ca.crt")
    wanted = {"a stranger": "signature failure|self-signed|unable to get", "one that has ended": "expired", "another host": "IP address mismatch"}
    with served(tmp_path) as port:
        access = in_cluster({"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}, tmp_path)
        with pytest.raises(EngineSilent, match=wanted[kind]):
            listed_pods(access, "gpu01")


@BOTH
async def test_mail_and_webhooks_go_to_servers_of_the_labs_own_authority(tmp_path, has_identifiers):
    context, ca = server_tls(tmp_path, has_identifiers=has_identifiers)
    with smtp_endpoint(starttls=context) as smtp, http_endpoint(tls=context) as hook:
        there = {"host": "127.0.0.1", "port": smtp.port, "sender": "fairy@lab.example", "to": ["kim@lab.example"]}
        for fields in ({"kind": "email", **there}, {"kind": "webhook", "url": f"{hook.url}/in"}):
            channel = ChannelConfig.model_validate({"name": "ops", "ca_file": str(ca), **fields})
            await make_courier(channel).send(Letter((ITEM,), link="https://lab.example/"))
    assert (smtp.secure, [one.path for one in hook.requests]) == ([True], ["/in"])


@BOTH
async def test_an_authority_that_was_added_to_the_machine_is_believed_by_all_who_call(tmp_path, has_identifiers, trusted_here):
    a_server(tmp_path, has_identifiers)
    with served(tmp_path) as port:
        url = f"https://127.0.0.1:{port}"
        with pytest.raises(ServerNotReached, match="could not prove who it is"), Fairy(url, "t") as stranger:
            stranger.nodes()
        trusted_here(tmp_path / "ca.crt")
        with Fairy(url, "t") as fairy:
            assert fairy.nodes() == []
        async with AsyncFairy(url, "t") as fairy:
            assert await fairy.nodes() == []
        assert page(f"{url}/metrics")[0] == 200
        registry = RegistryHttp()
        async with registry.asked("GET", f"127.0.0.1:{port}", f"{url}/v2/", "") as answer:
            assert answer.status == 200
        await registry.close()


async def test_a_webhook_without_an_authority_named_is_sent_to_nobody_unknown(tmp_path, trusted_here):
    context, _ = server_tls(tmp_path)
    with http_endpoint(tls=context) as hook:
        channel = ChannelConfig.model_validate({"name": "ops", "kind": "webhook", "url": f"{hook.url}/in"})
        with pytest.raises(NotDelivered, match="not trusted"):
            await make_courier(channel).send(Letter((ITEM,), link="https://lab.example/"))
    assert hook.requests == []


def test_the_form_alone_is_forgiven_and_host_name_and_chain_are_asked_for():
    for tls in (trust_authorities(), trust_machine()):
        assert not tls.verify_flags & ssl.VERIFY_X509_STRICT
        assert (tls.check_hostname, tls.verify_mode) == (True, ssl.CERT_REQUIRED)
