"""The API's own description: what routes read, who may call them and what they answer, held against the routes and the table of rights."""
import inspect
import json
import re

import pytest
from fastapi.routing import APIRoute
from house_scene import a_house

from gpufairy.api.answers import LISTS, MAY_NOT_ARRIVE, ONE_OR_MANY, OTHER_STATUSES, OTHER_TYPES, SHAPED
from gpufairy.api.app import make_app
from gpufairy.api.bodies import BODIES, RAW_BODIES
from gpufairy.api.context import Context
from gpufairy.api.policy import API, POLICY, WEBSOCKET, Who
from gpufairy.control.links import SignInLinks
from gpufairy.wire.disk_report import DiskReportBody
from gpufairy.wire.report import ReportBody

READ_BY_NAME = re.compile(r"read\((\w+), await json_body\(request\)")
SIGNED = {"read_report(": ReportBody, "read_disk_report(": DiskReportBody}  # read from their bytes, which are signed
OF_THE_DESCRIPTION = {("GET", f"{API}/openapi.json"), ("GET", "/docs")}


@pytest.fixture
async def app(tmp_path):
    async with a_house(tmp_path) as scene:
        yield make_app(Context(scene.house, SignInLinks(scene.house.clock), "http://server:8420"))


@pytest.fixture(scope="module")
def kept():
    return {}


@pytest.fixture
def told(app, kept):
    """Made once: it is the same for every server."""
    if not kept:
        kept.update(app.openapi())
    return kept


def shown(route):
    return route[0].lower(), route[1].replace(":path}", "}")


def operation(told, route):
    method, path = shown(route)
    return told["paths"][path][method]


def endpoints(routes):
    for route in routes:
        if isinstance(route, APIRoute):
            yield from (((method, route.path), inspect.getsource(route.endpoint)) for method in route.methods)
        elif hasattr(route, "original_router"):
            yield from endpoints(route.original_router.routes)


def read_in(source):
    """The name of the model that a route reads its body by; "" of one that takes it as it is; None: it reads none."""
    if "json_body(" not in source and "whole_body(" not in source:
        return None
    signed = [model.__name__ for reader, model in SIGNED.items() if reader in source]
    return [*READ_BY_NAME.findall(source), *signed, ""][0]


def test_every_body_that_a_route_reads_is_described_by_the_model_that_reads_it(app):
    read = {route: found for route, source in endpoints(app.routes) if (found := read_in(source)) is not None}
    assert read == {route: model.__name__ for route, model in BODIES.items()} | dict.fromkeys(RAW_BODIES, "")


def test_every_route_with_a_body_has_its_schema_with_what_is_required(told):
    for route, model in BODIES.items():
        body = operation(told, route)["requestBody"]
        schema = resolved(told, body["content"]["application/json"]["schema"])
        fields = {field.alias or name: field.is_required() for name, field in model.model_fields.items()}
        assert set(schema["properties"]) == set(fields), route
        assert set(schema.get("required", ())) == {name for name, required in fields.items() if required}, route
        assert body["required"] is any(fields.values()), route
    for route, kind in RAW_BODIES.items():
        assert list(operation(told, route)["requestBody"]["content"]) == [kind]
    described = {shown(route) for route in (*BODIES, *RAW_BODIES)}
    assert described == {(method, path) for path, methods in told["paths"].items() for method, one in methods.items() if "requestBody" in one}


def resolved(told, schema):
    while "$ref" in schema:
        _, *way = schema["$ref"].split("/")
        schema = told
        for step in way:
            schema = schema[step]
    return schema


def test_every_row_of_the_tables_is_of_a_route():
    rows = {*BODIES, *RAW_BODIES, *LISTS, *SHAPED, *ONE_OR_MANY, *OTHER_TYPES, *OTHER_STATUSES, *MAY_NOT_ARRIVE}
    assert rows <= set(POLICY)


def test_what_is_described_is_what_the_table_of_rights_has_but_for_pages_and_sockets(told):
    calls = {(method.upper(), path) for path, methods in told["paths"].items() for method in methods}
    rows = {route for route, who in POLICY.items() if who not in (Who.PAGE, Who.ADMIN_PAGE) and route[0] != WEBSOCKET} - OF_THE_DESCRIPTION
    rows = {(method.upper(), path) for method, path in map(shown, rows) if path.startswith((API, "/healthz", "/readyz", "/metrics"))}
    assert calls == rows
    assert set(told["x-websockets"]) == {path for method, path in POLICY if method == WEBSOCKET}


def test_credentials_are_those_of_the_table_of_rights(told):
    open_to_all = {shown(route) for route, who in POLICY.items() if who is Who.ANYONE}
    for path, methods in told["paths"].items():
        for method, one in methods.items():
            assert (one["security"] == []) is ((method, path) in open_to_all), (method, path)
            assert ("401" in one["responses"]) is ((method, path) not in open_to_all), (method, path)
    assert operation(told, ("GET", f"{API}/users"))["security"] == [{"token": ["admin"]}]
    assert operation(told, ("GET", "/metrics"))["security"] == [{}, {"token": ["metrics"]}]
    assert told["x-websockets"][f"{API}/sessions/{{name}}/terminal"]["security"] == [{"token": ["signed in"]}, {"browser": []}]
    used = {scheme for one in [*all_operations(told), *told["x-websockets"].values()] for way in one["security"] for scheme in way}
    assert used == set(told["components"]["securitySchemes"])


def all_operations(told):
    return [one for methods in told["paths"].values() for one in methods.values()]


def test_every_error_is_a_problem_and_every_parameter_has_a_type(told):
    for one in all_operations(told):
        for status, answer in one["responses"].items():
            if status >= "400" and "content" in (found := resolved(told, answer)):
                assert "application/problem+json" in found["content"], (one["operationId"], status)
        for parameter in one.get("parameters", ()):
            assert resolved(told, parameter["schema"])["type"] in ("string", "integer", "number", "boolean"), parameter


def test_every_part_that_is_named_is_there(told):
    text = json.dumps(told)
    assert "HTTPValidationError" not in text
    for name in set(re.findall(r'"\$ref": "(#[^"]+)"', text)):
        assert resolved(told, {"$ref": name}), name


async def test_no_start_waits_for_the_description(app):
    assert app.openapi_schema is None
    assert app.described is None
    assert app.openapi() is app.openapi()
