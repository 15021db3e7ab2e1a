"""Looking into an image: a throw-away container of it, shut in on all sides, says what users and shells it has.

Nothing of the image is run: our own bash, with builtins alone.
"""
import asyncio
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufairy.engines.docker_daemon import NOT_FOUND, WORK_S, Daemon
from gpufairy.engines.docker_facts import MOST_BYTES
from gpufairy.engines.docker_spec import Mount, confinement, ulimits

PROBE_S = 10.0
SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")
PODMANS_OWN = "65534:*:"  # a line that Podman adds for whoever runs and is not in the list: here, for us
# A list that is a link to somewhere endless is read no further than its size, or until the time is up.
SCRIPT = f"""\
for list in passwd group; do
  printf '== %s\\n' "$list"
  [ -r "/etc/$list" ] && IFS= read -r -N {MOST_BYTES} text < "/etc/$list"
  printf '%s\\n' "$text"
  text=
done
printf '== shells\\n'
for shell in {" ".join(SHELLS)}; do
  [ -x "$shell" ] && printf '%s\\n' "$shell"
done
exit 0
"""


@dataclass(frozen=True, slots=True)
class Probed:
    passwd: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    shell: str = "/bin/sh"

    @property
    def bash(self) -> bool:
        return self.shell.endswith("/bash")


async def probe(daemon: Daemon, image_id: str, tools: Path) -> Probed:
    async with daemon.asked(f"looking into image {image_id[:19]}", within_s=WORK_S):
        container = await daemon.docker.containers.create(probe_spec(daemon, image_id, tools), name=f"fairy-look-{uuid.uuid4().hex[:12]}")
    try:
        async with daemon.asked(f"looking into image {image_id[:19]}", within_s=WORK_S):
            await container.start()
            async with asyncio.timeout(PROBE_S):
                await container.wait()
            lines = await container.log(stdout=True)
    finally:
        async with daemon.asked("removing a throw-away container", fine=(NOT_FOUND,)):
            await container.delete(force=True, v=True)
    return parsed(lines)


def probe_spec(daemon: Daemon, image_id: str, tools: Path) -> dict[str, Any]:
    return {
        "Image": image_id,
        "Entrypoint": ["/opt/fairy/bin/bash", "--norc", "--noprofile", "-c", SCRIPT],
        "Cmd": [],
        "User": "65534:65534",
        "WorkingDir": "/",
        "Env": ["LC_ALL=C", "LD_PRELOAD=", "LD_AUDIT=", "BASH_ENV=", "SHELLOPTS=", "PATH=/opt/fairy/bin"],
        "Labels": {"gpufairy.role": "look"},
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            **confinement(),
            "ReadonlyRootfs": True,
            "NetworkMode": "none",
            "Mounts": [Mount(tools, "/opt/fairy").plain()],
            "Memory": 128 * 2**20,
            "MemorySwap": 128 * 2**20,
            "PidsLimit": 16,
            "Ulimits": ulimits(daemon.most_files(1024), daemon.hard.nproc),
        },
    }


def parsed(chunks: Iterable[str]) -> Probed:
    found: dict[str, list[str]] = {"passwd": [], "group": [], "shells": []}
    here: list[str] = []
    for line in "".join(chunks).splitlines():
        if line.startswith("== ") and line[3:] in found:
            here = found[line[3:]]
        elif line.isprintable() and line and not line.startswith(PODMANS_OWN):
            here.append(line)
    return Probed(tuple(found["passwd"]), tuple(found["group"]), best_shell(found["shells"]))


def best_shell(found: Sequence[str]) -> str:
    return next((shell for shell in SHELLS if shell in found), "/bin/sh")
