"""The exporter's own process: what the command line needs, and nobody after it (11 MB of it), is left behind.

`fairy exporter` checks what it was told, listens, and then becomes `python -m gpufairy.main.exporting`, under the same PID.
"""
import asyncio
import json
import os
import socket
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NoReturn

from gpufairy.main.collect import keep_collecting, make_sampler, naming_rules, page_for, speak_to_stderr, until_told_to_end
from gpufairy.main.pods import KubernetesWatch
from gpufairy.node.exporter import Exporter
from gpufairy.node.outlet import Outlet
from gpufairy.node.textfile import Textfile


@dataclass(frozen=True, slots=True)
class Exporting:
    """All of it checked already."""

    node: str
    every_s: float
    names: tuple[str, ...] = ()
    simulate: str | None = None
    textfile: str | None = None
    data: str | None = None  # None: nowhere to write
    kubernetes: KubernetesWatch = field(default_factory=KubernetesWatch)

    def outlet(self) -> Outlet:
        textfile = None if self.textfile is None else Textfile(Path(self.textfile))
        return Outlet(page_for(self.every_s), textfile, None if self.data is None else Path(self.data))


def become(exporting: Exporting, listener: socket.socket) -> NoReturn:
    """The socket goes along: whether the port was free has been said before."""
    os.set_inheritable(listener.fileno(), True)
    sys.stderr.flush()
    words = (sys.executable, "-P", "-m", "gpufairy.main.exporting", str(listener.fileno()), json.dumps(asdict(exporting)))
    os.execv(sys.executable, words)


async def serve(exporting: Exporting, listener: socket.socket) -> None:
    outlet = exporting.outlet()
    exporter = Exporter(outlet.page)
    rules = naming_rules(exporting.names, ())
    sampler, source = make_sampler(exporting.node, exporting.simulate, exporting.every_s, rules, exporting.kubernetes)
    await source.start()
    await exporter.start(listener)
    host, port = listener.getsockname()[:2]
    sys.stderr.write(f"fairy: http://{f'[{host}]' if ':' in host else host}:{port}/metrics\n")
    try:
        await keep_collecting(sampler, exporting.every_s, outlet)
    finally:
        await exporter.stop()
        await source.close()
        outlet.close()


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(listener.fileno(), False)
    listener.setblocking(False)
    told = json.loads(sys.argv[2])
    speak_to_stderr()
    kubernetes = KubernetesWatch(**told["kubernetes"])
    exporting = Exporting(**{**told, "names": tuple(told["names"]), "kubernetes": kubernetes})
    asyncio.run(until_told_to_end(serve(exporting, listener)))
    sys.stderr.flush()
    os._exit(0)  # a thread that asks somebody silent may be within OpenSSL, whose own leave-taking waits for it


if __name__ == "__main__":
    main()
