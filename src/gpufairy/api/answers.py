"""What routes answer with when all is well, where that is not one object of JSON: lists, streams, files; and further statuses."""
from typing import Any

from gpufairy.api.policy import API

Route = tuple[str, str]
JSON, LINES, TEXT, BYTES, TAR = "application/json", "application/x-ndjson", "text/plain", "application/octet-stream", "application/x-tar"
PAGE: dict[str, Any] = {
    "description": "A list. Send `next` as `after` for what follows; null: that was all.",
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"type": "object"}}, "next": {"type": ["string", "integer", "null"]}},
    "required": ["items", "next"],
}
LISTS: frozenset[Route] = frozenset({
    *(("GET", f"{API}/{path}") for path in (
        "sessions sessions/{name}/results/files sessions/{name}/events events queue images nodes gpus shares pools bookings mig "
        "selftests/isolation move/past move/readings users teams classes quotas tokens keys messages agents usage ledger accounting advice "
        "disk disk/folders doctor backups alerts alerts/rules alerts/uptime alerts/silences alerts/channels leaks maintenance"
    ).split()),
    ("PUT", f"{API}/shares"), ("DELETE", f"{API}/shares"), ("POST", f"{API}/doctor"),
})  # fmt: skip
SHAPED: dict[Route, str] = {  # the name of what is answered in SHAPES; of a list, what each of it is
    ("GET", "/healthz"): "Health", ("GET", "/readyz"): "Health",
    ("GET", f"{API}/sessions"): "Session", ("GET", f"{API}/sessions/{{name}}"): "Session",
    ("DELETE", f"{API}/sessions/{{name}}"): "Session", ("POST", f"{API}/sessions/{{name}}/keep"): "Session",
    ("POST", f"{API}/sessions/{{name}}/resume"): "Session",
    ("POST", f"{API}/sessions/{{name}}/swap"): "Session", ("GET", f"{API}/sessions/{{name}}/why"): "Why",
    ("GET", f"{API}/sessions/{{name}}/results/files"): "ResultFile", ("GET", f"{API}/sessions/{{name}}/events"): "Event",
    ("GET", f"{API}/events"): "Event", ("GET", f"{API}/queue"): "Waiting",
    ("GET", f"{API}/bookings"): "Booking", ("POST", f"{API}/bookings"): "Booking", ("DELETE", f"{API}/bookings/{{booking_id}}"): "Booking",
    ("GET", f"{API}/me"): "Me", ("POST", f"{API}/signin-links"): "Link", ("POST", f"{API}/gateway/signin-links"): "Link",
    ("GET", f"{API}/users"): "User", ("POST", f"{API}/users"): "User", ("GET", f"{API}/users/{{name}}"): "User",
    ("PATCH", f"{API}/users/{{name}}"): "User", ("GET", f"{API}/teams"): "Team", ("POST", f"{API}/teams"): "Team",
    ("GET", f"{API}/teams/{{name}}"): "Team", ("PATCH", f"{API}/teams/{{name}}"): "Team",
    ("GET", f"{API}/quotas"): "Quota", ("PUT", f"{API}/quotas"): "Quota",
    ("GET", f"{API}/tokens"): "Token", ("POST", f"{API}/tokens"): "Token", ("GET", f"{API}/keys"): "Key", ("POST", f"{API}/keys"): "Key",
}  # fmt: skip
ONE_OR_MANY: dict[Route, str] = {("POST", f"{API}/sessions"): "Session"}  # with `count` as `items`
OTHER_TYPES: dict[Route, tuple[str, ...]] = {
    ("GET", "/metrics"): (TEXT,),
    ("GET", f"{API}/sessions/{{name}}/logs"): (TEXT,),
    ("GET", f"{API}/sessions/{{name}}/results"): (TAR,),
    ("GET", f"{API}/sessions/{{name}}/results/files/{{path:path}}"): (BYTES,),
    ("GET", f"{API}/events"): (JSON, "text/event-stream"),  # with `follow`
    ("GET", f"{API}/accounting"): (JSON, "text/csv", "text/html"),
    ("GET", f"{API}/classes/{{name}}/handins"): (TAR,),
    ("POST", f"{API}/images/pull"): (LINES,),
    ("POST", f"{API}/selftests/isolation"): (LINES,),
    ("GET", f"{API}/move/homes/{{user}}"): (LINES,),
    ("POST", f"{API}/move/homes/{{user}}/read"): (BYTES,),
}
OTHER_STATUSES: dict[Route, dict[str, str]] = {
    ("GET", "/readyz"): {"503": "Not ready: which part does not answer."},
    ("GET", f"{API}/sessions/{{name}}/results"): {"204": "There are none."},
    ("POST", f"{API}/classes"): {"200": "With `dry_run`: nothing was made."},
}
MAY_NOT_ARRIVE: frozenset[Route] = frozenset({  # what they send elsewhere
    ("POST", f"{API}/alerts/channels/{{name}}/test"), ("POST", f"{API}/messages/{{kind}}/test"),
})  # fmt: skip
