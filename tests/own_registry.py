"""A real registry for tests: Docker's own, as Debian packages it, on a port and in a folder of its own."""
import asyncio
import contextlib
import gzip
import json
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from bench.ports import free_port

from gpufairy.engines.registry.blobs import Blob, Repository, digest_of
from gpufairy.engines.registry.build import DOCKER, in_one
from gpufairy.engines.registry.http import RegistryHttp
from gpufairy.engines.registry.logins import NO_LOGINS, RegistryAccess
from waits import until

USER, PASSWORD = "fairy", "canary-registry-password"
HTPASSWD = f"{USER}:$2b$04$I1OUN9Qcsa4rEByzWptx4OLWjKmy1jhQDDvCeOGkkWIzPYzV.Smpa\n"


@dataclass
class OwnRegistry:
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", str(self.folder / "config.yml")], stdout=log, stderr=log)
        until(self.answers, "the registry to answer")

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.host}/v2/", timeout=1):
                return True
        except urllib.error.HTTPError as error:
            error.close()
            return error.code == 401
        except OSError:
            return False

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(10)
            self.process = None


@contextlib.contextmanager
def own_registry(*, password: bool = False, deletes: bool = True) -> Iterator[OwnRegistry]:
    if shutil.which("docker-registry") is None:
        pytest.skip("no docker-registry: apt-get install docker-registry")
    folder = Path(tempfile.mkdtemp(prefix="fairy-reg-"))
    made = OwnRegistry(folder, free_port())
    (folder / "htpasswd").write_text(HTPASSWD)
    settings = {
        "version": 0.1, "log": {"level": "error"}, "http": {"addr": made.host},
        "storage": {"filesystem": {"rootdirectory": f"{folder}/data"}, "delete": {"enabled": deletes}},
        **({"auth": {"htpasswd": {"realm": "tests", "path": f"{folder}/htpasswd"}}} if password else {}),
    }  # fmt: skip
    (folder / "config.yml").write_text(json.dumps(settings))
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)


def logins_file(folder: Path, host: str, user: str = USER, password: str = PASSWORD) -> Path:
    path = folder / "logins.json"
    path.write_text(json.dumps({"auths": {host: {"username": user, "password": password}}}))
    return path


async def put_image(repository: Repository, tag: str, layer: bytes, settings: dict[str, object] | None = None) -> str:
    """Of one layer; the digest of its manifest."""
    packed = gzip.compress(layer, mtime=0)
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]}, "history": [{"created_by": "tests"}],
        "config": {"Cmd": ["/bin/sh"], "Env": ["PATH=/usr/bin:/bin", "FROM_BASE=yes"], "Labels": {"of": "base"}, **(settings or {})},
    }).encode()  # fmt: skip
    for text in (packed, config):
        await repository.put(Blob(digest_of(text), len(text)), in_one(text))
    manifest = {
        "schemaVersion": 2, "mediaType": DOCKER,
        "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "digest": digest_of(config), "size": len(config)},
        "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "digest": digest_of(packed), "size": len(packed)}],
    }  # fmt: skip
    return await repository.put_manifest(tag, json.dumps(manifest).encode(), DOCKER)


def put_image_now(host: str, name: str, tag: str, layer: bytes, access: RegistryAccess = NO_LOGINS) -> str:
    async def put() -> str:
        http = RegistryHttp(access)
        try:
            return await put_image(Repository(http, host, name), tag, layer)
        finally:
            await http.close()

    return asyncio.run(put())
