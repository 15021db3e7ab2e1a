"""The form of a new session: what was typed into it, and the body of a submit that it means. Amounts stay as they were typed."""
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from typing import Any

from gpufairy.core.amounts import show_cpus, shown
from gpufairy.core.errors import BadInput
from gpufairy.core.session import Session, SessionKind
from gpufairy.wire.read import read
from gpufairy.wire.submit import SubmitBody

OTHER = "other"  # of a choice: what is meant was typed into the field beside it
FOR_A_SHELL = re.compile(r"[|&;<>()$`*?\[\]{}~#!\n]|^[A-Za-z_]\w*=")  # without one of these a command is a list of words
LONGEST = 64 * 1024  # characters of one field
TEXTS = ("name", "gpus", "gpu_kind", "gpu_memory", "cpus", "memory", "image", "time", "pool", "team", "workdir")
WHOLE = ("retry", "count")
SIZES = (("GiB", 2**30), ("MiB", 2**20), ("B", 1))
TIMES = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


@dataclass(frozen=True, slots=True)
class Typed:
    """Each field of the form as it stands there; empty: left open."""

    kind: str = SessionKind.INTERACTIVE.value
    command: str = ""
    image: str = ""
    gpus: str = ""
    gpu_kind: str = ""
    gpu_memory: str = ""
    cpus: str = ""
    memory: str = ""
    time: str = ""
    mounts: str = ""  # one a line
    count: str = ""
    together: str = ""
    preemptible: str = ""
    priority: str = ""
    name: str = ""
    env: str = ""  # NAME=VALUE, one a line
    ports: str = ""
    workdir: str = ""
    after: str = ""
    retry: str = ""
    team: str = ""
    pool: str = ""


FIELDS = tuple(field.name for field in fields(Typed))


def typed_of(sent: Mapping[str, str], start: Typed | None = None) -> Typed:
    """What a browser sent, laid over what the form began with."""
    start = Typed() if start is None else start
    given = {name: sent[name].replace("\r\n", "\n").strip()[:LONGEST] for name in FIELDS if name in sent}
    for name in ("gpus", "image"):
        if given.get(name) == OTHER:
            given[name] = sent.get(f"{name}_{OTHER}", "").strip()[:LONGEST]
    return replace(start, **given)


def body_of(typed: Typed) -> SubmitBody:
    """What is submitted: only what was asked for. Raises BadInput, which begins with the field's name."""
    body: dict[str, Any] = {"kind": typed.kind}
    body |= {name: value for name in TEXTS if (value := getattr(typed, name))}
    body |= {name: whole(getattr(typed, name), name) for name in WHOLE if getattr(typed, name)}
    body |= {name: True for name in ("together", "preemptible") if getattr(typed, name)}
    if typed.kind == SessionKind.BATCH and typed.command:
        body["command"] = words_of(typed.command)
    if typed.priority:
        body["priority"] = number_or_word(typed.priority)
    if typed.env:
        body["env"] = dict(setting(line) for line in lines_of(typed.env))
    if typed.mounts:
        body["mounts"] = lines_of(typed.mounts)
    if typed.ports:
        body["ports"] = [whole(port, "ports") for port in re.split(r"[,\s]+", typed.ports)]
    if typed.after:
        body["after"] = re.split(r"[,\s]+", typed.after)
    return read(SubmitBody, body, "session")


def words_of(line: str) -> list[str]:
    """Plain words run as they are; whatever has a meaning to a shell is given to one."""
    if FOR_A_SHELL.search(line):
        return ["sh", "-c", line]
    try:
        return shlex.split(line)
    except ValueError:
        raise BadInput(f"command: {shown(line)} has a quote that is not closed", "Close it, or put a backslash before it.") from None


def line_of(command: str | list[str]) -> str:
    """As `words_of` reads it again."""
    if isinstance(command, str):
        return command
    if len(command) == 3 and command[:2] == ["sh", "-c"] and words_of(command[2]) == command:
        return command[2]
    return shlex.join(command)


def setting(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals or not name.strip():
        raise BadInput(f"env: {shown(line)} has no name and value", "Write NAME=VALUE, one a line.")
    return name.strip(), value


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def whole(text: str, what: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise BadInput(f"{what}: {shown(text)} is no whole number", "Write a number such as 2.")
    return int(text)


def number_or_word(text: str) -> int | str:
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,9}", text) else text


def typed_from(body: SubmitBody) -> Typed:
    """The form filled in as that body has it: a preset, or what was started before."""
    said = body.model_dump(exclude_none=True, exclude={"preset"})
    listed = {"mounts": "\n", "ports": ", ", "after": ", "}
    texts = {name: str(value) for name, value in said.items() if name in FIELDS}
    texts |= {name: between.join(map(str, said[name])) for name, between in listed.items() if isinstance(said.get(name), list)}
    texts |= {name: "yes" if said[name] else "" for name in ("together", "preemptible") if name in said}
    if "env" in said:
        texts["env"] = "\n".join(f"{name}={value}" for name, value in said["env"].items())
    if "command" in said:
        texts["command"] = line_of(said["command"])
    kind = said.get("kind") or (SessionKind.BATCH if "command" in said else SessionKind.INTERACTIVE)
    return Typed(**{**texts, "kind": str(kind)})


def body_of_session(session: Session) -> SubmitBody:
    """What would ask for the same once more. Neither its name nor what it came after: both are used up."""
    asked = session.request
    given: dict[str, Any] = {
        "kind": session.kind.value,
        "command": list(asked.command),
        "gpus": str(asked.share),
        "gpu_kind": asked.gpu_kind,
        "gpu_memory": size_text(asked.gpu_memory_bytes),
        "cpus": None if asked.cpus_milli is None else show_cpus(asked.cpus_milli),
        "memory": size_text(asked.memory_bytes),
        "image": asked.image,
        "time": time_text(asked.time_limit),
        "env": dict(asked.env),
        "mounts": list(asked.mounts),
        "ports": list(asked.ports),
        "pool": asked.pool,
        "retry": asked.retries,
        "workdir": asked.workdir,
        "preemptible": asked.preemptible,
        "priority": min(0, session.priority),
    }
    return read(SubmitBody, {name: value for name, value in given.items() if value not in (None, [], {}, False, 0)}, "session")


def size_text(size_bytes: int | None) -> str | None:
    """Exactly, as parse_size reads it again."""
    if size_bytes is None:
        return None
    return in_largest(size_bytes, SIZES)


def time_text(time: timedelta | None) -> str | None:
    if time is None:
        return None
    return in_largest(int(time.total_seconds()), TIMES)


def in_largest(amount: int, units: tuple[tuple[str, int], ...]) -> str:
    """In the largest unit of which it is a whole number."""
    return next(f"{amount // unit}{word}" for word, unit in units if amount % unit == 0)


def changed(typed: Typed) -> dict[str, str]:
    """What of the form is not as it begins, for a link to it. Variables stay out: their values may be secrets."""
    began = asdict(Typed())
    return {name: value for name, value in asdict(typed).items() if value != began[name] and name != "env"}
