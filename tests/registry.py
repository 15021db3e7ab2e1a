"""A registry of the tests' own, with one image in it: enough of the protocol for a pull, and a hold on how fast it goes."""
import contextlib
import gzip
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from images import Layer

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def digest(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()


class Registry:
    def __init__(self) -> None:
        self.go_on = threading.Event()  # blobs are held back until then
        self.pulls = 0
        layer = Layer()
        layer.file("pulled", os.urandom(3 * 2**20))  # one that an engine has already it does not fetch
        plain = layer.finished()
        blob = gzip.compress(plain, compresslevel=0)
        config = json.dumps({
            "architecture": "amd64", "os": "linux", "config": {"Env": ["CUDA_VERSION=12.4.1"]},
            "rootfs": {"type": "layers", "diff_ids": [digest(plain)]}, "history": [{}],
        }).encode()  # fmt: skip
        self.blobs = {digest(blob): blob, digest(config): config}
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": digest(config)},
            "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": len(blob), "digest": digest(blob)}],
        }).encode()  # fmt: skip
        self.name = ""  # of its image


@contextlib.contextmanager
def running_registry() -> Iterator[Registry]:
    registry = Registry()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            last = self.path.rpartition("/")[2]
            if "/manifests/" in self.path and last in ("1", digest(registry.manifest)):
                registry.pulls += self.command == "GET"
                self.say(registry.manifest, MANIFEST)
            elif last in registry.blobs:
                registry.go_on.wait(30)
                self.say(registry.blobs[last], "application/octet-stream")
            else:
                self.say(b"{}", "application/json", 200 if self.path == "/v2/" else 404)

        do_HEAD = do_GET

        def say(self, body: bytes, kind: str, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Content-Digest", digest(body))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)  # Docker speaks plain HTTP with loopback alone
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    registry.name = f"127.0.0.1:{server.server_port}/fairy/pulled:1"
    try:
        yield registry
    finally:
        registry.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()
