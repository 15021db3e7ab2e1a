"""Who may call what: one table. A route without a row here does not start, and a test walks the router."""
from enum import StrEnum


class Who(StrEnum):
    ANYONE = "anyone"  # without a token
    LOCAL = "local"  # without a token from this machine; elsewhere with a token that has the right
    SIGNED_IN = "signed in"  # with any token of a user, also from inside a session; they see their own things alone
    PERSON = "person"  # as SIGNED_IN, but not from inside a session
    ADMIN = "admin"
    GATEWAY = "gateway"  # the SSH gateway's own token, which opens nothing else
    BROWSER = "browser"  # as SIGNED_IN; or by the cookie of a browser, if it says that a page of ours asks
    AGENT = "agent"  # an agent's own signature, checked by the route: it is over the whole body
    PAGE = "page"  # signed in by the cookie of a browser, which opens nothing else; others are shown how to sign in


API = "/api/v1"
WEBSOCKET = "WEBSOCKET"  # in place of a method
POLICY: dict[tuple[str, str], Who] = {
    ("GET", "/healthz"): Who.ANYONE,
    ("GET", "/readyz"): Who.ANYONE,
    ("GET", "/metrics"): Who.LOCAL,
    ("GET", "/docs"): Who.ANYONE,
    ("GET", f"{API}/openapi.json"): Who.ANYONE,
    ("GET", "/signin"): Who.ANYONE,  # with a link that works once
    ("POST", "/signout"): Who.PAGE,
    ("GET", "/static/look.css"): Who.ANYONE,
    ("GET", "/"): Who.PAGE,
    ("GET", "/sessions/{name}"): Who.PAGE,
    ("GET", "/sessions/{name}/terminal"): Who.PAGE,
    ("POST", "/sessions/{name}/apps/{app}"): Who.PAGE,
    ("GET", "/static/xterm.css"): Who.ANYONE,
    ("GET", "/static/terminal.css"): Who.ANYONE,
    ("GET", "/static/xterm.js"): Who.ANYONE,
    ("GET", "/static/xterm-fit.js"): Who.ANYONE,
    ("GET", "/static/terminal.js"): Who.ANYONE,
    ("GET", f"{API}/sessions"): Who.SIGNED_IN,
    ("POST", f"{API}/sessions"): Who.SIGNED_IN,
    ("GET", f"{API}/sessions/{{name}}"): Who.SIGNED_IN,
    ("DELETE", f"{API}/sessions/{{name}}"): Who.SIGNED_IN,
    ("GET", f"{API}/sessions/{{name}}/logs"): Who.SIGNED_IN,
    ("GET", f"{API}/sessions/{{name}}/results"): Who.SIGNED_IN,
    ("GET", f"{API}/sessions/{{name}}/events"): Who.SIGNED_IN,
    ("GET", f"{API}/sessions/{{name}}/why"): Who.SIGNED_IN,
    ("POST", f"{API}/sessions/{{name}}/keep"): Who.SIGNED_IN,
    ("POST", f"{API}/sessions/{{name}}/swap"): Who.SIGNED_IN,
    ("POST", f"{API}/sessions/{{name}}/commit"): Who.SIGNED_IN,
    ("POST", f"{API}/sessions/{{name}}/apps"): Who.SIGNED_IN,
    (WEBSOCKET, f"{API}/sessions/{{name}}/terminal"): Who.BROWSER,
    ("GET", f"{API}/images"): Who.SIGNED_IN,
    ("POST", f"{API}/images/pull"): Who.SIGNED_IN,
    ("POST", f"{API}/images/approve"): Who.ADMIN,
    ("POST", f"{API}/images/refuse"): Who.ADMIN,
    ("DELETE", f"{API}/images"): Who.PERSON,
    ("POST", f"{API}/stops"): Who.SIGNED_IN,
    ("GET", f"{API}/queue"): Who.SIGNED_IN,
    ("GET", f"{API}/nodes"): Who.SIGNED_IN,
    ("POST", f"{API}/nodes/{{name}}/drain"): Who.ADMIN,
    ("POST", f"{API}/nodes/{{name}}/resume"): Who.ADMIN,
    ("GET", f"{API}/gpus"): Who.SIGNED_IN,
    ("GET", f"{API}/shares"): Who.SIGNED_IN,
    ("PUT", f"{API}/shares"): Who.ADMIN,
    ("DELETE", f"{API}/shares"): Who.ADMIN,
    ("GET", f"{API}/mig"): Who.SIGNED_IN,
    ("POST", f"{API}/mig/plan"): Who.SIGNED_IN,
    ("POST", f"{API}/mig/apply"): Who.ADMIN,
    ("POST", f"{API}/mig/auto"): Who.ADMIN,
    ("GET", f"{API}/selftests/isolation"): Who.SIGNED_IN,
    ("POST", f"{API}/selftests/isolation"): Who.ADMIN,
    ("GET", f"{API}/events"): Who.SIGNED_IN,
    ("GET", f"{API}/me"): Who.SIGNED_IN,
    ("POST", f"{API}/signin-links"): Who.PERSON,
    ("GET", f"{API}/users"): Who.ADMIN,
    ("POST", f"{API}/users"): Who.ADMIN,
    ("GET", f"{API}/users/{{name}}"): Who.PERSON,
    ("PATCH", f"{API}/users/{{name}}"): Who.ADMIN,
    ("GET", f"{API}/tokens"): Who.PERSON,
    ("POST", f"{API}/tokens"): Who.PERSON,
    ("DELETE", f"{API}/tokens/{{token_id}}"): Who.PERSON,
    ("GET", f"{API}/keys"): Who.PERSON,
    ("POST", f"{API}/keys"): Who.PERSON,
    ("DELETE", f"{API}/keys/{{fingerprint:path}}"): Who.PERSON,
    ("GET", f"{API}/readings"): Who.SIGNED_IN,
    ("GET", f"{API}/sessions/{{name}}/readings"): Who.SIGNED_IN,
    ("GET", f"{API}/usage"): Who.SIGNED_IN,
    ("POST", f"{API}/agents/hello"): Who.ANYONE,  # it grants nothing: an admin accepts the key
    ("POST", f"{API}/agents/{{name}}/reports"): Who.AGENT,
    ("GET", f"{API}/agents"): Who.ADMIN,
    ("POST", f"{API}/agents/{{name}}/accept"): Who.ADMIN,
    ("DELETE", f"{API}/agents/{{name}}"): Who.ADMIN,
    ("GET", f"{API}/gateway/roster"): Who.GATEWAY,
    ("POST", f"{API}/gateway/doors"): Who.GATEWAY,
    ("GET", f"{API}/gateway/apps"): Who.GATEWAY,
    ("POST", f"{API}/gateway/tickets"): Who.GATEWAY,
}
