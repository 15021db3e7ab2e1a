"""Small pages of the proxy's own, when there is no app to answer. They run nothing, and tell strangers nothing about sessions.

In both tongues at once: what a browser asks for here is meant for the app, and nobody has read it yet.
"""
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
OPEN_IT_KO = "`fairy open NAME jupyter`나 세션 페이지에서 여십시오."


@dataclass(frozen=True, slots=True)
class Page:
    status: int
    title: str
    words: str
    korean: str
    look_again: bool = False

    @property
    def body(self) -> bytes:
        refresh = f'<meta http-equiv="refresh" content="{LOOK_AGAIN_S}">' if self.look_again else ""
        title, words, korean = html.escape(self.title), html.escape(self.words), html.escape(self.korean)
        head = f'<!doctype html><html lang="en"><meta charset="utf-8">{refresh}<title>{title}</title><style>{STYLE}</style>'
        return f'{head}<h1>{title}</h1><p>{words}</p><p lang="ko">{korean}</p></html>'.encode()

    @property
    def fields(self) -> list[tuple[bytes, bytes]]:
        return [*FIELDS, (b"content-length", str(len(self.body)).encode()), (b"connection", b"close")]


class Said(Enum):
    """What needs no names."""

    NO_TICKET = Page(401, "You are not signed in to this app", OPEN_IT, f"이 앱에 로그인하지 않았습니다. {OPEN_IT_KO}")
    USED = Page(
        401, "This link does not work any more", f"It works once, within a minute. {OPEN_IT}",
        f"이 링크는 더는 쓸 수 없습니다. 1분 안에 한 번만 됩니다. {OPEN_IT_KO}",
    )  # fmt: skip
    ELSEWHERE = Page(
        403, "A page of another site asked for this", "Apps answer their own pages alone. Open it by its own address.",
        "다른 사이트의 페이지가 요청했습니다. 앱은 자신의 페이지에만 답합니다. 그 주소로 직접 여십시오.",
    )  # fmt: skip
    NOTHING_HERE = Page(
        404, "There is no app here", f"Its session is over, or the address is wrong. {OPEN_IT}",
        f"여기에 앱이 없습니다. 세션이 끝났거나 주소가 틀렸습니다. {OPEN_IT_KO}",
    )  # fmt: skip
    LOOKED_AHEAD = Page(503, "Not yet", "Open this link yourself: it works once.", "이 링크는 한 번만 됩니다. 직접 여십시오.")
    FULL = Page(
        503, "Too many connections", "This session's apps have as many open as they may. Close some pages of them.",
        "이 세션의 앱에 열린 연결이 한도에 이르렀습니다. 앱의 페이지를 몇 개 닫으십시오.",
    )  # fmt: skip
    TOO_LARGE = Page(
        431, "The head of the request is too large", "64 KiB are taken: delete cookies of this site.",
        "요청의 머리가 너무 큽니다. 64 KiB까지 받습니다. 이 사이트의 쿠키를 지우십시오.",
    )  # fmt: skip
    NO_HTTP = Page(400, "This is no HTTP request", "Ask again with a browser.", "HTTP 요청이 아닙니다. 브라우저로 다시 여십시오.")


def starting(app: App, session: str) -> Page:
    if not app.programs:
        words, korean = "Start what you want to see there; this page looks again.", "보려는 것을 시작하십시오. 이 페이지가 다시 확인합니다."
        return Page(503, f"Nothing listens on {app.title} yet", words, f"{app.title}: 아직 아무것도 없습니다. {korean}", look_again=True)
    log = f"~/.cache/gpufairy/{session}/{app.name}.log"
    words = f"This page looks again every {LOOK_AGAIN_S} s. Its log inside is {log}."
    korean = f"{app.title}: 시작하는 중입니다. 이 페이지가 {LOOK_AGAIN_S}초마다 다시 확인합니다. 안에 있는 로그: {log}"
    return Page(503, f"{app.title} is starting…", words, korean, look_again=True)


def no_session(words: str) -> Page:
    return Page(503, "The session does not answer", words, "세션이 응답하지 않습니다. 이 페이지가 다시 확인합니다.", look_again=True)


def bad_request(words: str) -> Page:
    return Page(400, "This request cannot be passed on", f"Its fault: {words}.", "이 요청은 앱에 전할 수 없습니다.")


def bad_answer(app: App) -> Page:
    return Page(
        502, f"{app.title} gave no answer that can be read", "Load the page again; if it stays so, restart the app.",
        f"{app.title}: 읽을 수 없는 답이 왔습니다. 페이지를 다시 여십시오. 그래도 그러면 앱을 다시 시작하십시오.",
    )  # fmt: skip
