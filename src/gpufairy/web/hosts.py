"""Which name of this server to put into commands: the one by which whoever asks has reached it."""
import re
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")  # what a shell and ssh take as it is


def host_of(request: HTTPConnection, url: str) -> str:
    """`url`: as the server was told that people reach it. One that says only this machine says nothing to others."""
    own = urlsplit(url).hostname or "localhost"
    named = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    local = own in ("localhost", "::1") or own.startswith("127.")
    return named if local and HOST_NAME.fullmatch(named) else own
