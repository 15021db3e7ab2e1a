"""What passes between a browser and an app, and what does not: fields of requests and answers, as pure functions."""
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from gpufairy.core.apps import OUR_COOKIES, TICKET_PREFIX

Fields = Sequence[tuple[bytes, bytes]]  # names in small letters

# Of one connection alone, by RFC 9110: each side has its own.
HOP_BY_HOP = frozenset({
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
    b"transfer-encoding", b"upgrade", b"http2-settings",
})  # fmt: skip
NEVER_DROPPED = frozenset({b"host", b"content-length"})  # whatever `Connection` says: without them it would be another request
SAID_BY_US = frozenset({b"forwarded", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-for", b"x-real-ip"})
FRAMES = frozenset({b"iframe", b"frame", b"embed", b"object", b"fencedframe"})


@dataclass(frozen=True, slots=True)
class Head:
    """A request as far as the proxy cares for it."""

    method: bytes
    target: bytes
    fields: Fields
    source: str  # the address it comes from
    host: str = field(init=False)
    secure: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "host", self.first(b"host").decode("latin-1").lower())
        object.__setattr__(self, "secure", self.first(b"x-forwarded-proto").lower() == b"https")

    def first(self, name: bytes) -> bytes:
        return next((value for known, value in self.fields if known == name), b"")

    def words(self, name: bytes) -> set[bytes]:
        return words(self.fields, name)

    @property
    def origin(self) -> bytes:
        """Its own, as a browser would write it."""
        return f"{'https' if self.secure else 'http'}://{self.host}".encode("latin-1")

    @property
    def to_websocket(self) -> bool:
        return b"upgrade" in self.words(b"connection") and self.first(b"upgrade").lower() == b"websocket"

    @property
    def cookies(self) -> dict[bytes, bytes]:
        pairs = (pair.partition(b"=") for pair in cookie_pairs(self.fields))
        return {name.strip(): value.strip() for name, _, value in pairs}

    @property
    def ticket(self) -> str | None:
        """Ours, and no ticket of an app's own sign-in."""
        path, _, query = self.target.partition(b"?")
        if path != b"/" or self.method != b"GET" or not query:
            return None
        found = parse_qs(query.decode("latin-1"), max_num_fields=100).get("ticket", [""])[0]
        return found if found.startswith(TICKET_PREFIX) else None

    @property
    def looks_ahead(self) -> bool:
        """A browser that guesses where its user goes next: it must not use a ticket up."""
        purpose = self.first(b"sec-purpose") + self.first(b"purpose")
        return b"prefetch" in purpose or b"prerender" in purpose


def fault(head: Head) -> str | None:
    """Why it is no request that may be passed on: what two readers could take for two different things is refused whole."""
    names = [name for name, _ in head.fields]
    if b"transfer-encoding" in names and b"content-length" in names:
        return "it gives its length in two ways"
    if names.count(b"transfer-encoding") > 1 or names.count(b"content-length") > 1:
        return "it gives its length more than once"
    if not head.host or names.count(b"host") != 1:
        return "it does not say which host it is for"
    if head.method == b"CONNECT" or not (head.target.startswith(b"/") or head.target == b"*"):
        return "its target is no path"
    return None


def comes_from_elsewhere(head: Head) -> bool:
    """A page of another origin asks, with the user's cookie: pages of other apps on this host are strangers like any other.

    Links from elsewhere are fine, and reading by them changes nothing; a WebSocket must prove itself, since nothing else guards it.
    """
    origin = head.first(b"origin")
    if head.to_websocket or origin:
        return origin.lower() != head.origin
    site, mode = head.first(b"sec-fetch-site"), head.first(b"sec-fetch-mode")
    if site not in (b"same-site", b"cross-site"):
        return False
    return mode != b"navigate" or head.first(b"sec-fetch-dest") in FRAMES


def to_app(head: Head) -> list[tuple[bytes, bytes]]:
    """The fields of a request as the app gets them: no cookie of ours among them."""
    passed = [(name, value) for name, value in end_to_end(head.fields) if name != b"cookie" and name not in SAID_BY_US]
    if theirs := [pair for pair in cookie_pairs(head.fields) if not pair.startswith(OUR_COOKIES.encode())]:
        passed.append((b"cookie", b"; ".join(theirs)))
    if chunked(head.fields):
        passed.append((b"transfer-encoding", b"chunked"))
    way = [value for name, value in head.fields if name == b"x-forwarded-for"]
    passed += [
        (b"x-forwarded-for", b", ".join([*way, head.source.encode()])),
        (b"x-forwarded-proto", b"https" if head.secure else b"http"),
        (b"x-forwarded-host", head.first(b"host")),
    ]
    return [*passed, *upgrade_fields()] if head.to_websocket else passed


def to_browser(fields: Fields) -> list[tuple[bytes, bytes]]:
    """The fields of an answer as the browser gets them: an app sets no cookie of ours, and none for other hosts."""
    passed = []
    for name, value in end_to_end(fields):
        if name == b"content-length" and chunked(fields):
            continue
        if name != b"set-cookie":
            passed.append((name, value))
        elif not value.lstrip().startswith(OUR_COOKIES.encode()):
            passed.append((name, host_only(value)))
    return passed


def upgrade_fields() -> list[tuple[bytes, bytes]]:
    return [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]


def host_only(cookie: bytes) -> bytes:
    """Without `Domain`: sessions are neighbours below one domain, and must not set each other's cookies."""
    first, *attributes = cookie.split(b";")
    return b";".join([first, *(one for one in attributes if one.partition(b"=")[0].strip().lower() != b"domain")])


def end_to_end(fields: Fields) -> Iterable[tuple[bytes, bytes]]:
    dropped = HOP_BY_HOP | (words(fields, b"connection") - NEVER_DROPPED)
    return [(name, value) for name, value in fields if name not in dropped]


def chunked(fields: Fields) -> bool:
    return b"chunked" in words(fields, b"transfer-encoding")


def words(fields: Fields, name: bytes) -> set[bytes]:
    return {word.strip().lower() for known, value in fields if known == name for word in value.split(b",")}


def cookie_pairs(fields: Fields) -> list[bytes]:
    return [pair for name, value in fields if name == b"cookie" for one in value.split(b";") if (pair := one.strip())]
