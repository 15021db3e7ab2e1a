"""The calls of alerts and messages, beside those of calls.py."""
from gpufairy.client.protocol import Call, Record, path_of


def alerts(*, past: bool, node: str) -> Call:
    return Call("GET", path_of("alerts", past=past, node=node or None, limit=500))


def acknowledge_alert(alert_id: str) -> Call:
    return Call("POST", path_of("alerts", alert_id, "ack"), {}, harmless=True)


def alert_rules() -> Call:
    return Call("GET", path_of("alerts", "rules"))


def uptime() -> Call:
    return Call("GET", path_of("alerts", "uptime"))


def silences() -> Call:
    return Call("GET", path_of("alerts", "silences"))


def silence_alerts(body: Record) -> Call:
    return Call("POST", path_of("alerts", "silences"), {name: value for name, value in body.items() if value is not None})


def unsilence_alerts(silence_id: str) -> Call:
    return Call("DELETE", path_of("alerts", "silences", silence_id))


def alert_channels() -> Call:
    return Call("GET", path_of("alerts", "channels"))


def test_channel(name: str) -> Call:
    return Call("POST", path_of("alerts", "channels", name, "test"), {})


def messages() -> Call:
    return Call("GET", path_of("messages"))


def set_messages(body: Record) -> Call:
    return Call("PUT", path_of("messages"), body, harmless=True)


def remove_messages(kind: str) -> Call:
    return Call("DELETE", path_of("messages", kind))


def test_messages(kind: str) -> Call:
    return Call("POST", path_of("messages", kind, "test"), {})
