"""Files that pages load: scripts, styles, pictures. Each address holds a hash of its file, so that browsers keep it for good."""
import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.core.errors import NoSuchThing

STATIC = Path(__file__).parent / "static"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
A_YEAR_S = 365 * 86400


@dataclass(frozen=True, slots=True)
class Asset:
    content: bytes
    packed: bytes
    kind: str
    href: str


def asset(path: Path) -> Asset:
    content = path.read_bytes()
    href = f"/static/{path.name}?v={hashlib.sha256(content).hexdigest()[:12]}"
    return Asset(content, gzip.compress(content, 9, mtime=0), KINDS[path.suffix], href)


ASSETS = {path.name: asset(path) for path in sorted(STATIC.iterdir()) if path.suffix in KINDS}


def href(name: str) -> str:
    return ASSETS[name].href


def add_assets(router: APIRouter) -> None:
    @router.get("/static/{name}")
    async def static(request: Request, name: str) -> Response:
        found = ASSETS.get(name)
        if found is None:
            raise NoSuchThing(f"no file {name[:60]!r} here", "Load the page again.")
        headers = {"Cache-Control": f"public, max-age={A_YEAR_S}, immutable", "Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(found.content, media_type=found.kind, headers=headers)
        return Response(found.packed, media_type=found.kind, headers={**headers, "Content-Encoding": "gzip"})
