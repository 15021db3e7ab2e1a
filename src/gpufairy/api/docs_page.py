"""The description of the API as one page for people, readable without a script."""
from html import escape
from typing import Any

from gpufairy.api.policy import API

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>gpufairy API</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:90rem;margin:2rem auto;padding:0 1rem}}
td,th{{padding:.3rem .8rem;vertical-align:top;text-align:left}}</style>
<h1>gpufairy {version}: the API</h1><p>Send <code>Authorization: Bearer TOKEN</code>. Errors are <code>application/problem+json</code>.
The same for machines, with the types of all that is sent: <a href="{api}/openapi.json">openapi.json</a>. What is bold must be sent.</p>
<table><tr><th>call</th><th></th><th>who</th><th>query and headers</th><th>body</th><th>answer</th><th></th></tr>
{rows}</table></html>"""


def docs_page(told: dict[str, Any]) -> str:
    rows = [row(told, method, path, route) for path, methods in told["paths"].items() for method, route in methods.items()]
    return PAGE.format(version=escape(told["info"]["version"]), api=API, rows="\n".join(rows))


def row(told: dict[str, Any], method: str, path: str, route: dict[str, Any]) -> str:
    asked = [(one["name"], one["required"]) for one in route.get("parameters", ()) if one["in"] != "path"]
    good = [part for status, part in route["responses"].items() if status < "300"]
    kinds = dict.fromkeys(kind for part in good for kind in part.get("content", {}))
    cells = (
        f"<b>{method.upper()}</b>", f"<code>{escape(path)}</code>", escape(who(route["security"])),
        names(asked), names(fields(told, route)), "<br>".join(map(escape, kinds)), escape(route.get("description", "")),
    )  # fmt: skip
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def who(security: list[dict[str, list[str]]]) -> str:
    """Whose token; without one the name of what is sent in its place."""
    ways = [" ".join(roles) or scheme for way in security for scheme, roles in (way or {"anyone": []}).items()]
    return ", ".join(ways) or "anyone"


def fields(told: dict[str, Any], route: dict[str, Any]) -> list[tuple[str, bool]]:
    """Of a body; its kind, where it is not JSON."""
    found = []
    for kind, part in route.get("requestBody", {}).get("content", {}).items():
        if "schema" not in part:
            return [(kind, True)]
        schema = told["components"]["schemas"][part["schema"]["$ref"].rpartition("/")[2]]
        found = [(name, name in schema.get("required", ())) for name in schema["properties"]]
    return found


def names(found: list[tuple[str, bool]]) -> str:
    return ", ".join(f"<b>{escape(name)}</b>" if required else escape(name) for name, required in found)
