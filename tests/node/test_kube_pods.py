"""The list of pods out of an API server's answers, good and bad. That a real one is understood is seen in tests/kube."""
import contextlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from gpufairy.core.errors import FairyError
from gpufairy.node import kube_pods
from gpufairy.node.kube_access import KubeAccess
from gpufairy.node.kube_pods import KubePod, listed_pods
from kube.certificates import Authority

UID = "0e886e9a-3879-45f9-b44d-86ef9df03224"
A, B, C = "a" * 64, "b" * 64, "c" * 64
Answers = Callable[[dict[str, list[str]]], bytes]


class Api:
    """Answers as it is told to, and remembers what it was asked."""

    def __init__(self, port: int, folder: Path) -> None:
        self.answer: Answers = lambda query: page()
        self.status = 200
        self.asked: list[tuple[str, dict[str, list[str]], str]] = []
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self.access = KubeAccess("kubeconfig x", "127.0.0.1", port, tls, "secret", "/k8s/one")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    Authority(tmp_path).server("server", "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            made.asked.append((url.path, query, self.headers.get("Authorization", "")))
            body = made.answer(query)
            self.send_response(made.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    made = Api(server.server_port, tmp_path)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def page(*items: Any, more: str = "") -> bytes:
    return json.dumps({"kind": "PodList", "metadata": {"continue": more}, "items": items}).encode()


def a_pod(uid: str = UID, name: str = "train-0", **metadata: Any) -> dict[str, Any]:
    status = {
        "containerStatuses": [{"name": "torch", "containerID": f"containerd://{A}"}, {"name": "waits", "containerID": ""}, {"name": "new"}],
        "initContainerStatuses": [{"name": "init", "containerID": f"cri-o://{B}"}],
        "ephemeralContainerStatuses": [{"name": "debug", "containerID": f"docker://{C}"}, {"name": "odd", "containerID": "what is this"}],
    }  # fmt: skip
    return {"metadata": {"uid": uid, "name": name, "namespace": "ml", "managedFields": [{}], **metadata}, "spec": {"containers": []}, "status": status}


def test_pods_have_names_labels_and_all_kinds_of_containers(api: Api):
    api.answer = lambda query: page(a_pod(labels={"owner": "kim", "long": "x" * 64}), {"metadata": {"uid": UID, "name": "b", "namespace": "c"}, "spec": {}})
    assert listed_pods(api.access, "node-1") == [
        KubePod(UID, "train-0", "ml", {"owner": "kim"}, {A: "torch", B: "init", C: "debug"}), KubePod(UID, "b", "c"),
    ]  # fmt: skip
    [(path, query, proof)] = api.asked
    assert (path, query["fieldSelector"], query["resourceVersion"], proof) == ("/k8s/one/api/v1/pods", ["spec.nodeName=node-1"], ["0"], "Bearer secret")


def test_a_static_pod_tells_the_uid_that_it_runs_under(api: Api):
    api.answer = lambda query: page(a_pod(annotations={"kubernetes.io/config.mirror": "7260904bbd08e72e4dff95d9fccd2ee8"}))
    assert listed_pods(api.access, "node-1")[0].runs_as == "7260904bbd08e72e4dff95d9fccd2ee8"


def test_all_pages_are_read(api: Api):
    def answer(query: dict[str, list[str]]) -> bytes:
        number = int(query.get("continue", ["0"])[0])
        assert ("resourceVersion" in query) is (number == 0), "a page that follows has the version of the first"
        return page(a_pod(name=f"pod-{number}"), more=str(number + 1) if number < 3 else "")

    api.answer = answer
    assert [pod.name for pod in listed_pods(api.access, "node-1")] == ["pod-0", "pod-1", "pod-2", "pod-3"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "no list of pods"), (b"[]", "no list of pods"), (b'{"items": 5}', "no list of pods"), (b'{"items": [5], "metadata": {}}', "no list of pods"),
        (b"\xff\xfe", "no list of pods"), (b"[" * 200_000, "no list of pods"), (page({"metadata": {}, "spec": {}}), "no list of pods"),
        (page(a_pod(uid="../x")), "no list of pods"), (page(a_pod(labels=[1])), "no list of pods"), (page({"metadata": 5, "spec": {}}), "no list of pods"),
        (page(more="again"), "more than 20 pages"),
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_is_told(api: Api, answer: bytes, words: str):
    api.answer = lambda query: answer
    with pytest.raises(FairyError, match=words) as raised:
        listed_pods(api.access, "node-1")
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(("status", "words"), [(401, "does not know us by kubeconfig x"), (403, "does not let us list pods of node node-1"), (500, "answered 500: no"), (302, "answered 302")])
def test_a_refusal_is_told_in_words(api: Api, status: int, words: str):
    api.status, api.answer = status, lambda query: b"no"
    with pytest.raises(FairyError, match=words):
        listed_pods(api.access, "node-1")


def test_an_answer_has_a_limit_in_size(api: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kube_pods, "MOST_BYTES", 100_000)
    api.answer = lambda query: page(a_pod(name="x" * 60_000), more="more")
    with pytest.raises(FairyError, match="more than 100000 bytes"):
        listed_pods(api.access, "node-1")


def test_a_server_that_never_answers_is_given_up(api: Api, monkeypatch: pytest.MonkeyPatch):
    free = threading.Event()
    monkeypatch.setattr(kube_pods, "ANSWER_S", 0.2)
    api.answer = lambda query: page() if free.wait(20) else b""
    began = time.monotonic()
    with pytest.raises(FairyError, match="gave no answer"):
        listed_pods(api.access, "node-1")
    assert time.monotonic() - began < 5
    free.set()


def test_names_are_printable_whatever_the_server_says(api: Api):
    api.answer = lambda query: page(a_pod(name="a\n\u202eb"))
    assert listed_pods(api.access, "node-1")[0].name == "a??b"


def test_labels_that_look_like_a_pod_are_labels(api: Api):
    api.answer = lambda query: page(a_pod(labels={"metadata": "x", "spec": "y"}))
    assert listed_pods(api.access, "node-1")[0].labels == {"metadata": "x", "spec": "y"}
