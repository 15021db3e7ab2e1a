"""The page of alerts: every rule, how bad it is, when it fires and is over, and what to do."""
from datetime import timedelta

from docs.generate.markdown import code, plain, table
from docs.generate.words import MADE, Tongue

from gpufairy.core.alert_rules import ALL_RULES

INTRODUCTION = {
    "en": "What the server watches for by itself. How alerts are told, silenced and taken note of is in [alerts](../admin.md#alerts); `fairy alerts rules` lists the same. "
    "Rules for Prometheus are another matter: [Prometheus and Grafana](../monitoring.md#prometheus-and-grafana).",
    "ko": "서버가 스스로 지켜보는 것입니다. 경고를 어떻게 알리고 조용히 하고 확인하는지는 [경고](../admin.ko.md#경고)에 있고, `fairy alerts rules`도 같은 목록을 보여 줍니다. "
    "Prometheus의 규칙은 따로 있습니다: [Prometheus와 Grafana](../monitoring.ko.md#prometheus와-grafana).",
}  # fmt: skip


def page(say: Tongue) -> str:
    heads = (say("rule"), say("how bad"), say("fires after"), say("over after"))
    rows = [(f"[{code(rule.id)}](#{rule.id})", say(rule.severity.value), lasting(rule.after, say), lasting(rule.hold, say)) for rule in ALL_RULES]
    parts = [f"# {say('Alerts')}\n", f"{INTRODUCTION[say.lang]} {MADE[say.lang]}\n", table(heads, rows)]
    for rule in ALL_RULES:
        parts.append(f"## {rule.id}\n\n**{plain(say(rule.title))}**: {plain(say(rule.what))}.\n\n{say('What to do')}: {plain(say(rule.todo))}\n")
    return "\n".join(parts)


def lasting(time: timedelta, say: Tongue) -> str:
    seconds = round(time.total_seconds())
    if not seconds:
        return say("at once")
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
