"""`python -m gpufairy.gateway --data DIR --port 8422 --listen ADDRESS`: started by the server as a process of its own."""
import argparse
import asyncio
import logging
import sys
from pathlib import Path

from gpufairy.core.errors import FairyError
from gpufairy.core.source import parse_trusted
from gpufairy.gateway.entry import serve_gateway
from gpufairy.gateway.settings import LISTEN, PORT, GatewaySettings


def settings_of(arguments: list[str]) -> GatewaySettings:
    parser = argparse.ArgumentParser(prog="python -m gpufairy.gateway", description="The SSH gateway of a gpufairy server.")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the server's data folder")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--listen", default=LISTEN, metavar="ADDRESS")
    parser.add_argument("--login-grace", type=float, default=30.0, metavar="SECONDS", dest="login_grace_s")
    parser.add_argument("--most-per-user", type=int, default=100, metavar="CONNECTIONS")
    parser.add_argument("--most-waiting", type=int, default=8192, metavar="CONNECTIONS")
    parser.add_argument("--most-waiting-per-source", type=int, default=2048, metavar="CONNECTIONS")
    parser.add_argument("--most-signing-in", type=int, default=128, metavar="CONNECTIONS")
    parser.add_argument("--most-signing-in-per-source", type=int, default=32, metavar="CONNECTIONS")
    parser.add_argument("--most-channels", type=int, default=32, metavar="CHANNELS")
    parser.add_argument("--trusted", action="append", default=[], metavar="NETWORK", help="has many people behind it")
    given = vars(parser.parse_args(arguments))
    return GatewaySettings(**{**given, "trusted": parse_trusted(given["trusted"], "--trusted")})


def main() -> int:
    settings = settings_of(sys.argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("asyncssh").setLevel(logging.CRITICAL)  # it logs what clients send; what matters is logged here
    try:
        asyncio.run(serve_gateway(settings))
    except FairyError as error:
        sys.stderr.write(f"fairy: {error.detail}\n  → {error.next_step}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
