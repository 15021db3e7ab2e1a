"""Small pages of the proxy's own, when there is no app to answer. They run nothing, and tell strangers nothing about sessions."""
import base64
import hashlib
import html
from dataclasses import dataclass
from enum import Enum

from gpufairy.core.apps import App

STYLE = "body{font:16px/1.6 system-ui,sans-serif;max-width:38rem;margin:15vh auto;padding:0 1rem}p{color:#666}"
STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
FIELDS = (
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'".encode(),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)
LOOK_AGAIN_S = 2
OPEN_IT = "Open it by `fairy open NAME jupyter`, or on your page."


@dataclass(frozen=True, slots=True)
class Page:
    status: int
    title: str
    words: str
    look_again: bool = False

    @property
    def body(self) -> bytes:
        refresh = f'<meta http-equiv="refresh" content="{LOOK_AGAIN_S}">' if self.look_again else ""
        title, words = html.escape(self.title), html.escape(self.words)
        head = f'<!doctype html><html lang="en"><meta charset="utf-8">{refresh}<title>{title}</title><style>{STYLE}</style>'
        return f"{head}<h1>{title}</h1><p>{words}</p></html>".encode()

    @property
    def fields(self) -> list[tuple[bytes, bytes]]:
        return [*FIELDS, (b"content-length", str(len(self.body)).encode()), (b"connection", b"close")]


class Said(Enum):
    """What needs no names."""

    NO_TICKET = Page(401, "You are not signed in to this app", OPEN_IT)
    USED = Page(401, "This link does not work any more", f"It works once, within a minute. {OPEN_IT}")
    ELSEWHERE = Page(403, "A page of another site asked for this", "Apps answer their own pages alone. Open it by its own address.")
    NOTHING_HERE = Page(404, "There is no app here", f"Its session is over, or the address is wrong. {OPEN_IT}")
    LOOKED_AHEAD = Page(503, "Not yet", "Open this link yourself: it works once.")
    FULL = Page(503, "Too many connections", "This session's apps have as many open as they may. Close some pages of them.")
    TOO_LARGE = Page(431, "The head of the request is too large", "64 KiB are taken: delete cookies of this site.")
    NO_HTTP = Page(400, "This is no HTTP request", "Ask again with a browser.")


def starting(app: App, session: str) -> Page:
    if not app.programs:
        return Page(503, f"Nothing listens on {app.title} yet", "Start what you want to see there; this page looks again.", look_again=True)
    words = f"This page looks again every {LOOK_AGAIN_S} s. Its log inside is ~/.cache/gpufairy/{session}/{app.name}.log."
    return Page(503, f"{app.title} is starting…", words, look_again=True)


def no_session(words: str) -> Page:
    return Page(503, "The session does not answer", words, look_again=True)


def bad_request(words: str) -> Page:
    return Page(400, "This request cannot be passed on", f"Its fault: {words}.")


def bad_answer(app: App) -> Page:
    return Page(502, f"{app.title} gave no answer that can be read", "Load the page again; if it stays so, restart the app.")
