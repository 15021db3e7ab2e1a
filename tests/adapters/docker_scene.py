"""An engine over a real daemon, with folders and a server's name of its own."""
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine_waits import until_exited, whole_log

from builders import a_node
from daemons import RealDaemon, remove_firewall, server_id
from gpufairy.core.node import Node
from gpufairy.core.session import Session
from gpufairy.engines.contract import Credentials
from gpufairy.engines.docker import DockerEngine
from gpufairy.engines.docker_spec import DockerSettings
from gpufairy.engines.run_folder import Places
from images import BUSYBOX_IMAGE

TOKEN = "secret-token-canary"
UIDS = {"student1": 20_001, "student2": 20_002, "kim": 20_003, "kim-a": 20_004}


@dataclass(slots=True)
class Scene:
    daemon: RealDaemon
    tools: Path
    folder: Path
    server_id: str = field(default_factory=server_id)
    node: Node = field(default_factory=a_node)

    @property
    def places(self) -> Places:
        return Places(self.folder / "data")

    def engine(self, **settings: Any) -> DockerEngine:
        """Each call: another server's engine over the same machine."""
        plain = replace(DockerSettings(default_image=BUSYBOX_IMAGE, pull=False), **settings)
        return DockerEngine(
            str(self.daemon.socket), self.places, self.node, lambda _: Credentials("http://127.0.0.1:8420", TOKEN), uid_of=UIDS.__getitem__,
            settings=plain, tools=self.tools, shared=self.folder / "shared", api_folder=self.folder / "api", server_id=self.server_id,
        )  # fmt: skip

    def containers(self) -> list[dict[str, Any]]:
        return self.daemon.containers(**{"gpufairy.server": self.server_id})

    def inspect(self, session: Session) -> dict[str, Any]:
        (found,) = self.daemon.containers(**{"gpufairy.session": session.id, "gpufairy.server": self.server_id})
        return self.daemon.container(found["Id"])


@contextmanager
def scene(daemon: RealDaemon, tools: Path) -> Iterator[Scene]:
    """The folder is short, and every user may come as far as the places that are mounted: a test's own folder is root's alone."""
    folder = Path(tempfile.mkdtemp(prefix="fairy-de-"))
    for name in ("shared", "api"):
        (folder / name).mkdir()
    here = Scene(daemon, tools, folder)
    try:
        yield here
    finally:
        for one in here.containers():
            with contextlib.suppress(AssertionError):  # gone by itself
                daemon.ask("DELETE", f"/containers/{one['Id']}?force=1&v=1")
        network = f"fairy-{here.server_id}"
        if any(found["Name"] == network for found in daemon.ask("GET", "/networks")):
            daemon.ask("DELETE", f"/networks/{network}")
        remove_firewall(network)
        shutil.rmtree(folder)


async def said(engine: DockerEngine, session: Session) -> str:
    """What it wrote, once it is over."""
    await engine.launch(session)
    await until_exited(engine, session)
    return (await whole_log(engine, session)).decode()


def limit_of(text: str, name: str) -> str:
    """Of /proc/self/limits, the soft one."""
    return next(line[len(name) :].split()[0] for line in text.splitlines() if line.startswith(name))
