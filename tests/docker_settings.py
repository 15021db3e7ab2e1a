"""Settings of a server whose sessions are containers of a test's own Docker."""
from pathlib import Path

from images import BUSYBOX_IMAGE

SETTINGS = """
[images]
default = "{image}"
allow = ["fairy-test/*"{allow}]
pull = {pull}
[docker]
socket = "{socket}"
{docker}[node]
name = "box"
cpus = {cpus}
memory = "{memory}"
"""


def docker_settings(socket: Path, more: str = "", *, docker: str = "", allow: str = "", pull: bool = False, cpus: int = 16, memory: str = "32GiB") -> str:
    """`docker`: lines of that part; `more`: parts of their own; `allow`: one more place that images may come from."""
    more_allowed = f', "{allow}"' if allow else ""
    return SETTINGS.format(image=BUSYBOX_IMAGE, allow=more_allowed, pull=str(pull).lower(), socket=socket, docker=docker, cpus=cpus, memory=memory) + more.lstrip("\n")
