"""Who may call what, written down a second time by hand: a slip that gives a right away is seen here."""

import pytest

from gpufairy.api.policy import API, POLICY, WEBSOCKET, Who

ANYONE = """
/healthz GET
/readyz GET
/docs GET
~/openapi.json GET
/signin GET POST
/signin/oidc GET
/signin/oidc/back GET
/join GET POST
/static/{name} GET
/language POST
~/agents/hello POST
"""
SIGNED_IN = """
~/sessions GET POST
~/sessions/{name} GET DELETE
~/sessions/{name}/logs GET
~/sessions/{name}/results GET
~/sessions/{name}/results/files GET
~/sessions/{name}/results/files/{path:path} GET
~/sessions/{name}/events GET
~/sessions/{name}/why GET
~/sessions/{name}/readings GET
~/sessions/{name}/summary GET
~/sessions/{name}/keep POST
~/sessions/{name}/resume POST
~/sessions/{name}/swap POST
~/sessions/{name}/commit POST
~/sessions/{name}/apps POST
~/stops POST
~/images GET
~/images/pull POST
~/queue GET
~/nodes GET
~/gpus GET
~/shares GET
~/pools GET
~/bookings GET
~/mig GET
~/mig/plan POST
~/selftests/isolation GET
~/events GET
~/me GET
~/teams GET
~/teams/{name} GET
~/classes GET
~/disk GET
~/quotas GET
~/readings GET
~/usage GET
~/ledger GET
~/advice GET
"""
PERSON = """
~/images DELETE
~/bookings POST
~/bookings/{booking_id} DELETE
~/signin-links POST
~/users/{name} GET
~/classes/{name} GET
~/classes/{name}/handins GET
~/accounting GET
~/tokens GET POST
~/tokens/{token_id} DELETE
~/keys GET POST
~/keys/{fingerprint:path} DELETE
~/messages GET PUT
~/messages/{kind} DELETE
~/messages/{kind}/test POST
"""
OTHERS = {
    Who.LOCAL: {("GET", "/metrics")},
    Who.BROWSER: {(WEBSOCKET, f"{API}/sessions/{{name}}/terminal")},
    Who.AGENT: {("POST", f"{API}/agents/{{name}}/reports"), ("POST", f"{API}/agents/{{name}}/disk")},
}


def rows(text: str) -> set[tuple[str, str]]:
    """`~` is the API."""
    found = set()
    for line in text.split("\n"):
        path, *methods = line.split() or [""]
        found |= {(method, path.replace("~", API)) for method in methods}
    return found


def rows_for(who: Who) -> set[tuple[str, str]]:
    return {row for row, whose in POLICY.items() if whose is who}


@pytest.mark.parametrize(
    ("who", "wanted"),
    [
        (Who.ANYONE, rows(ANYONE)),
        (Who.SIGNED_IN, rows(SIGNED_IN)),
        (Who.PERSON, rows(PERSON)),
        *OTHERS.items(),
    ],
)
def test_these_routes_and_no_others_are_open_to(who, wanted):
    assert rows_for(who) == wanted


def test_what_is_under_gateway_is_for_the_gateway_and_nothing_else_is():
    assert rows_for(Who.GATEWAY) == {row for row in POLICY if row[1].startswith(f"{API}/gateway/")}


def test_every_other_route_of_the_api_is_for_admins():
    listed = rows(ANYONE) | rows(SIGNED_IN) | rows(PERSON) | set().union(*OTHERS.values())
    rest = {row for row in POLICY if row[1].startswith(f"{API}/") and "/gateway/" not in row[1]} - listed
    assert rows_for(Who.ADMIN) == rest


def test_every_page_under_admin_is_for_admins_and_the_others_for_whoever_signed_in():
    pages = {row for row in POLICY if not row[1].startswith(f"{API}/")} - rows(ANYONE) - OTHERS[Who.LOCAL]
    under_admin = {row for row in pages if row[1] == "/admin" or row[1].startswith("/admin/")}
    assert rows_for(Who.ADMIN_PAGE) == under_admin
    assert rows_for(Who.PAGE) == pages - under_admin
