"""The page of metrics: every family that the exporter, the agent and the server serve, with its own HELP line."""
import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType

from docs.generate.markdown import code, plain, table
from docs.generate.words import MADE, Tongue

import gpufairy.node
from gpufairy.api import health
from gpufairy.node.render_text import Family

INTRODUCTION = {
    "en": "Every family of metrics with the words that Prometheus is told. Labels, what a missing series means, dashboards and alert rules are in "
    "[watching hosts](../monitoring.md).",
    "ko": "모든 메트릭과 Prometheus에 전하는 설명(영어)입니다. 라벨, 빠진 계열의 뜻, 대시보드와 경고 규칙은 [호스트 지켜보기](../monitoring.ko.md)에 있습니다.",
}
GROUPS = {
    "render_contract": "The contract: names that never change", "render_gpus": "GPUs", "render_processes": "Processes and sessions",
    "render_host": "The host", "render_counters": "Errors of GPUs", "render_collectors": "Collecting", "render": "Collecting",
}  # fmt: skip
HELP = re.compile(r"# HELP (\S+) ([^\"]+)\", \"# TYPE \S+ (\w+)")


def page(say: Tongue) -> str:
    parts = [f"# {say('Metrics')}\n", f"{INTRODUCTION[say.lang]} {MADE[say.lang]}\n"]
    for title, families in by_group().items():
        rows = [(code(one.name), say(one.kind), plain(one.words)) for one in families]
        parts += [f"## {say(title)}\n", table((say("family"), say("kind"), say("what it is")), rows)]
    rows = [(code(name), say(kind), plain(words)) for name, words, kind in servers_own()]
    parts += [f"## {say('Of the server alone')}\n", table((say("family"), say("kind"), say("what it is")), rows)]
    return "\n".join(parts)


def by_group() -> dict[str, list[Family]]:
    groups: dict[str, list[Family]] = {}
    for found in pkgutil.iter_modules(gpufairy.node.__path__):
        if found.name.startswith("render"):
            families = families_of(importlib.import_module(f"gpufairy.node.{found.name}"))
            if families:
                groups.setdefault(GROUPS.get(found.name, found.name), []).extend(families)
    order = list(dict.fromkeys(GROUPS.values()))
    return dict(sorted(groups.items(), key=lambda group: order.index(group[0]) if group[0] in order else len(order)))


def families_of(module: ModuleType) -> list[Family]:
    """Where it is declared, not where it is only used: by the source, since a value does not know its module."""
    source = Path(module.__file__ or "").read_text()
    values = [one for value in vars(module).values() for one in inside(value)]
    return [one for one in dict.fromkeys(values) if f'"{one.name}"' in source]


def inside(value: object) -> list[Family]:
    if isinstance(value, Family):
        return [value]
    if isinstance(value, dict):
        return [one for inner in (*value.keys(), *value.values()) for one in inside(inner)]
    if isinstance(value, tuple | list):
        return [one for inner in value for one in inside(inner)]
    return []


def servers_own() -> list[tuple[str, str, str]]:
    return [(name, words, kind) for name, words, kind in HELP.findall(Path(health.__file__).read_text())]
