"""The page of API calls: from the application's own OpenAPI, with who may call what from its table of rights."""
from typing import Any

from docs.generate.markdown import code, plain, table
from docs.generate.words import MADE, Tongue

from gpufairy.api.app import make_app
from gpufairy.api.policy import API, POLICY, Who

INTRODUCTION = {
    "en": "Every call of the API. How to speak to it, what the answers look like and examples are in [the API](../api.md). "
    "A running server has the same at `/docs` and, for machines, at `/api/v1/openapi.json`.",
    "ko": "API의 모든 호출입니다. 부르는 법과 답의 모양, 예는 [API](../api.ko.md)에 있습니다. 설명은 영어입니다. 켜져 있는 서버의 `/docs`와 `/api/v1/openapi.json`에도 같은 것이 있습니다.",
}
WHO = {
    Who.ANYONE: "anyone, without a token",
    Who.LOCAL: "anyone on this machine; elsewhere with a token that has the right",
    Who.SIGNED_IN: "any token of a user, also that of a session; they see their own things alone",
    Who.PERSON: "a token of a user, not that of a session",
    Who.ADMIN: "admins",
    Who.GATEWAY: "the SSH gateway's own token, which opens nothing else",
    Who.BROWSER: "as signed in; or a browser's cookie, from a page of ours",
    Who.AGENT: "an accepted agent, by its signature",
}

WEBSOCKET = "A WebSocket: see [the API](../api.md)."


class Nothing:
    """Stands for all that routes are given when a server starts: here they are only read, never called."""

    def __getattr__(self, name: str) -> "Nothing":
        return self

    def __call__(self, *_given: object, **_named: object) -> "Nothing":
        return self


def page(say: Tongue) -> str:
    told = make_app(Nothing()).openapi()["paths"]  # type: ignore[arg-type]
    used = {who: say(words) for who, words in WHO.items() if who in POLICY.values()}
    parts = [f"# {say('API, every call')}\n", f"{INTRODUCTION[say.lang]} {MADE[say.lang]}\n", f"## {say('Who may')}\n"]
    parts.append(table((say("word"), say("who")), [(code(who), plain(words)) for who, words in used.items()]))
    for group, calls in grouped(told).items():
        parts += [f"## {code(group)}\n", table((say("call"), say("who may"), say("what it does")), [row(say, *call) for call in calls])]
    return "\n".join(parts)


def grouped(told: dict[str, Any]) -> dict[str, list[tuple[str, str, dict[str, Any]]]]:
    """By the first word of the path, as people look for them."""
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for (method, path), _who in sorted(POLICY.items(), key=lambda item: item[0][1]):
        shown = path.replace(":path", "")
        found = told.get(path, told.get(shown, {})).get(method.lower(), {})
        if path.startswith(API) or found:
            groups.setdefault(group_of(path), []).append((method, path, found))
    return groups


def group_of(path: str) -> str:
    return "/" + path.removeprefix(API).split("/")[1]


def row(say: Tongue, method: str, path: str, found: dict[str, Any]) -> tuple[str, str, str]:
    query = [param["name"] for param in found.get("parameters", []) if param["in"] == "query"]
    asked = f"?{'&'.join(query)}" if query else ""
    words = found.get("description") or (say(WEBSOCKET) if method == "WEBSOCKET" else "")
    return code(f"{method} {path.removeprefix(API)}{asked}"), POLICY[method, path].value, plain(words)
