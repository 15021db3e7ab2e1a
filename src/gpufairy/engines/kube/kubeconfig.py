"""Kubeconfig files as kubectl reads them: several are merged, the first that names a thing wins, paths count from the file they are in."""
import base64
import binascii
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpufairy.core.errors import BadInput

LARGEST = 1 << 20  # bytes of a kubeconfig, a token, a bundle of certificates
NEXT = "Compare with kubectl config view."


@dataclass(frozen=True, slots=True)
class Entry:
    """One cluster, user or context, and the file that it stands in."""

    told: Mapping[str, Any] = field(repr=False)
    path: Path

    def text(self, name: str) -> str:
        value = self.told.get(name)
        return "" if value is None else str(value)

    def file(self, name: str) -> Path | None:
        """Named in it, from the folder of the kubeconfig."""
        return self.path.parent / self.text(name) if self.text(name) else None

    def decoded(self, name: str) -> bytes | None:
        if not self.text(name):
            return None
        try:
            return base64.b64decode(self.text(name), validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadInput(f"kubeconfig {self.path}: {name} is no base64 ({error})", NEXT) from error


@dataclass(frozen=True, slots=True)
class Chosen:
    context_name: str
    context: Entry
    cluster: Entry
    user: Entry


def paths_in(env: Mapping[str, str]) -> list[Path]:
    """Where kubectl would look, and only what is there."""
    if named := env.get("KUBECONFIG"):
        paths = [Path(one) for one in dict.fromkeys(named.split(os.pathsep)) if one]
    else:
        paths = [Path(env["HOME"], ".kube", "config")] if env.get("HOME") else []
    return [path for path in paths if path.exists()]


def choose(paths: Iterable[Path], context: str | None) -> Chosen:
    """The context of that name, or the current one."""
    paths = list(paths)
    files = [(path, _read(path)) for path in paths]
    where = f"kubeconfig {', '.join(map(str, paths))}"
    contexts = _merged(files, "contexts", "context")
    name = context or next((str(told["current-context"]) for _, told in files if told.get("current-context")), "")
    if not name:
        raise BadInput(f"{where} has no current context.", f"Name one of: {', '.join(sorted(contexts)) or 'there is none'}.")
    if name not in contexts:
        raise BadInput(f"{where} has no context {name[:100]!r}.", f"It has: {', '.join(sorted(contexts)) or 'none'}.")
    chosen = contexts[name]
    cluster = _one(_merged(files, "clusters", "cluster"), chosen, "cluster", name)
    user = _one(_merged(files, "users", "user"), chosen, "user", name) if chosen.text("user") else Entry({}, chosen.path)
    return Chosen(name, chosen, cluster, user)


def _one(entries: Mapping[str, Entry], context: Entry, kind: str, context_name: str) -> Entry:
    if (name := context.text(kind)) not in entries:
        raise BadInput(f"kubeconfig {context.path}: context {context_name} names {kind} {name[:100]!r}, which no file has.", NEXT)
    return entries[name]


def _merged(files: Iterable[tuple[Path, Mapping[str, Any]]], group: str, kind: str) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for path, told in files:
        entries = told.get(group) or []
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            raise BadInput(f"kubeconfig {path}: {group} is no list of entries with a name.", NEXT)
        for one in entries:
            inner = one.get(kind) or {}
            if not isinstance(inner, dict):
                raise BadInput(f"kubeconfig {path}: {kind} {str(one.get('name'))[:100]!r} is no set of fields.", NEXT)
            found.setdefault(str(one.get("name")), Entry(inner, path))
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        told = yaml.safe_load(read_bounded(path, "kubeconfig"))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadInput(f"kubeconfig {path} is no YAML: {str(error)[:300]}", NEXT) from error
    if told is None:
        return {}
    if not isinstance(told, dict):
        raise BadInput(f"kubeconfig {path} is no set of fields.", NEXT)
    return told


def read_bounded(path: Path, what: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not hold us up
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BadInput(f"{what}: {path} is no file.", NEXT)
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise BadInput(f"{what}: {path} cannot be read: {error.strerror}", "Let this account read it, or name another.") from error
    if len(text) > LARGEST:
        raise BadInput(f"{what}: {path} is larger than 1 MiB.", NEXT)
    return text
