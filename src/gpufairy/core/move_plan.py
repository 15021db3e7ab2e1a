"""What a move does about people: who and what of one server is not at another yet. What is there is never changed."""
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Record = Mapping[str, Any]


class Deed(StrEnum):
    ADD = "add"
    SAME = "same"
    DIFFERS = "differs"  # and stays as the target has it


@dataclass(frozen=True, slots=True)
class Step:
    what: str  # team, user, key or quota
    name: str
    deed: Deed
    words: str = ""
    record: Record = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Household:
    """As the API tells of them."""

    users: Sequence[Record] = ()
    keys: Sequence[Record] = ()
    teams: Sequence[Record] = ()
    quotas: Sequence[Record] = ()


NAMED_BY = {"team": ("name",), "user": ("name",), "key": ("fingerprint",), "quota": ("of", "gpu_kind")}
COMPARED = {
    "team": ("share",), "user": ("role", "team", "share", "disabled"), "key": ("user",),
    "quota": ("gpus", "gpu_hours", "sessions", "disk_bytes"),
}  # fmt: skip


def plan_people(source: Household, target: Household) -> list[Step]:
    """In an order in which each finds what it needs: teams, users, then their keys and quotas."""
    return [
        *steps("team", source.teams, target.teams), *steps("user", source.users, target.users),
        *steps("key", source.keys, target.keys), *steps("quota", source.quotas, target.quotas),
    ]  # fmt: skip


def steps(what: str, source: Iterable[Record], target: Iterable[Record]) -> list[Step]:
    there = {name_of(what, record): record for record in target}
    return [step(what, name_of(what, record), record, there.get(name_of(what, record))) for record in source]


def name_of(what: str, record: Record) -> str:
    return " ".join(str(record.get(part)) for part in NAMED_BY[what])


def step(what: str, name: str, record: Record, there: Record | None) -> Step:
    if there is None:
        return Step(what, name, Deed.ADD, record=record)
    other = [part for part in COMPARED[what] if record.get(part) != there.get(part)]
    if not other:
        return Step(what, name, Deed.SAME)
    words = ", ".join(f"{part} is {there.get(part)} there, {record.get(part)} here" for part in other)
    return Step(what, name, Deed.DIFFERS, words)
