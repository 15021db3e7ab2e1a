"""The API described for machines: what FastAPI knows of the routes, and all that it cannot know, from the tables beside it.

Who may call what is from policy.py, bodies from the models that they are read by, errors from problems.py.
"""
from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from gpufairy.api.answer_shapes import SHAPES, listed, shape
from gpufairy.api.answers import JSON, LISTS, MAY_NOT_ARRIVE, ONE_OR_MANY, OTHER_STATUSES, OTHER_TYPES, PAGE, SHAPED, Route
from gpufairy.api.bodies import BODIES, RAW_BODIES
from gpufairy.api.policy import API, POLICY, WEBSOCKET, Who
from gpufairy.api.problems import OF_CONNECTIONS, PROBLEM, PROBLEM_TYPE, titles_by_status
from gpufairy.control.links import PAGE_COOKIE

Part = dict[str, Any]

ABOUT = """Bodies are JSON objects of at most 1 MiB, and unknown fields are refused. Times are UTC; null is not known or not yet, never 0.
Errors are `application/problem+json`. Words in `security` beside a token say whose it must be. Sockets are in `x-websockets`."""
SCHEMES: Part = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token of a user: `fairy token create`."},
    "gateway": {"type": "http", "scheme": "bearer", "description": "The SSH gateway's own token, which opens nothing else."},
    "agent": {
        "type": "apiKey", "in": "header", "name": "Fairy-Signature",
        "description": "An agent's signature over host, epoch, sequence and the whole body: base64 of Ed25519.",
    },
    "browser": {"type": "apiKey", "in": "cookie", "name": PAGE_COOKIE, "description": "A browser that is signed in, from a page of ours."},
}  # fmt: skip
STAMP: list[Part] = [
    {"name": "Fairy-Epoch", "in": "header", "required": True, "schema": {"type": "string"}, "description": "as `hello` told it"},
    {
        "name": "Fairy-Sequence", "in": "header", "required": True, "schema": {"type": "integer", "minimum": 1, "maximum": 2**63 - 1},
        "description": "larger than that of the report before",
    },
]  # fmt: skip

ALWAYS_WITH = {401: "WWW-Authenticate", 429: "Retry-After"}


class DescribedApp(FastAPI):
    """Its description is made when it is first asked for: no start waits for it."""

    described: Part | None = None

    def openapi(self) -> Part:
        if self.described is None:
            self.described = completed(super().openapi())
        return self.described


def completed(told: Part) -> Part:
    rows = {(method, path.replace(":path}", "}")): (method, path) for method, path in POLICY}
    paths = {
        path: {method: operation(rows[method.upper(), path], known) for method, known in methods.items()}
        for path, methods in told["paths"].items()
    }
    sockets = {path: {"security": credentials(who)} for (method, path), who in POLICY.items() if method == WEBSOCKET}
    components = {
        "schemas": {**of_parameters(told), "Problem": PROBLEM, "Page": PAGE, **SHAPES, **body_schemas()},
        "responses": {problem_name(status): problem_answer(status) for status in titles_by_status()},
        "securitySchemes": SCHEMES,
    }
    return {**told, "info": {**told["info"], "description": ABOUT}, "paths": paths, "components": components, "x-websockets": sockets}


def of_parameters(told: Part) -> Part:
    """The words that a parameter may be. FastAPI's own errors are never sent."""
    return {name: schema for name, schema in told["components"]["schemas"].items() if not name.endswith("ValidationError")}


def operation(route: Route, known: Part) -> Part:
    who = POLICY[route]
    parameters = [parameter(route, one) for one in known.get("parameters", ())] + (STAMP if who is Who.AGENT else [])
    body = body_of(route)
    return {
        **known, **({"parameters": parameters} if parameters else {}), **({"requestBody": body} if body else {}),
        "security": credentials(who), "responses": answers(route, known["responses"], takes_words=bool(parameters or body)),
    }  # fmt: skip


def parameter(route: Route, known: Part) -> Part:
    """One that is left out is not null; and what stands between two slashes is something, and no slash."""
    schema = dict(known["schema"])
    if "anyOf" in schema:
        (kind,) = [one for one in schema.pop("anyOf") if one != {"type": "null"}]
        schema = {**schema, **kind}
    if known["in"] == "path" and f"{{{known['name']}}}" in route[1]:
        schema |= {"minLength": 1, "pattern": "^[^/]+$"}
    return {**known, "schema": schema}


def body_of(route: Route) -> Part | None:
    """One that needs nothing said may be left out."""
    if route in RAW_BODIES:
        return {"required": True, "content": {RAW_BODIES[route]: {}}}
    model = BODIES.get(route)
    if model is None:
        return None
    required = any(field.is_required() for field in model.model_fields.values())
    return {"required": required, "content": {JSON: {"schema": reference(model.__name__)}}}


def body_schemas() -> Part:
    models = dict.fromkeys(BODIES.values())
    schemas: Part = models_json_schema([(model, "validation") for model in models], ref_template=reference("{model}")["$ref"])[1]["$defs"]
    return schemas


def reference(name: str, kind: str = "schemas") -> Part:
    return {"$ref": f"#/components/{kind}/{name}"}


def credentials(who: Who) -> list[Part]:
    """Of several, one will do; an empty one: nothing need be sent."""
    match who:
        case Who.ANYONE:
            return []
        case Who.LOCAL:
            return [{}, {"token": ["metrics"]}]
        case Who.GATEWAY:
            return [{"gateway": []}]
        case Who.AGENT:
            return [{"agent": []}]
        case Who.BROWSER:
            return [{"token": [Who.SIGNED_IN.value]}, {"browser": []}]
    return [{"token": [who.value]}]


def answers(route: Route, known: Part, *, takes_words: bool) -> Part:
    status = min(known)  # the route's own: what FastAPI adds for bad input comes after it
    told = {str(one): reference(problem_name(one), "responses") for one in problems_of(route, takes_words)}
    for good, words in {status: "Done." if status == "204" else "As asked.", **OTHER_STATUSES.get(route, {})}.items():
        types = OTHER_TYPES.get(route, (JSON,)) if good != "204" else ()
        told[good] = good_answer(route, words, types, problem_too=good in told)
    return dict(sorted(told.items()))


def good_answer(route: Route, words: str, types: Iterable[str], *, problem_too: bool) -> Part:
    """`problem_too`: a status that has its own sense here may come as a problem all the same, from whoever stands before the route."""
    content: Part = {kind: {"schema": answer_schema(route)} if kind == JSON else {} for kind in types}
    if problem_too:
        content[PROBLEM_TYPE] = {"schema": reference("Problem")}
    return {"description": words, **({"content": content} if content else {})}


def answer_schema(route: Route) -> Part:
    one = reference(SHAPED[route]) if route in SHAPED else {"type": "object"}
    if route in ONE_OR_MANY:
        one = reference(ONE_OR_MANY[route])
        return {"anyOf": [one, shape(items=listed(one))]}
    if route not in LISTS:
        return one
    return {"allOf": [reference("Page"), {"properties": {"items": listed(one)}}]} if route in SHAPED else reference("Page")


def problems_of(route: Route, takes_words: bool) -> Iterable[int]:
    """Those that somebody who calls it must be ready for."""
    method, path = route
    yield from (*OF_CONNECTIONS, 400, 413, 429, 500, 503)
    if POLICY[route] is not Who.ANYONE:
        yield from (401, 403)
    if path.startswith(API):
        yield 409
    if takes_words:
        yield 404
    if method != "GET":
        yield 422
    if route in MAY_NOT_ARRIVE:
        yield 502


def problem_name(status: int) -> str:
    return f"Problem{status}"


def problem_answer(status: int) -> Part:
    headers = {ALWAYS_WITH[status]: {"schema": {"type": "string"}}} if status in ALWAYS_WITH else {}
    content = {PROBLEM_TYPE: {"schema": reference("Problem")}}
    return {"description": titles_by_status()[status], "content": content, **({"headers": headers} if headers else {})}
