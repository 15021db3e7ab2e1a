"""What options and session files ask for, as the body of a submit. Amounts go as they were typed: the server alone parses them."""
import os
from collections.abc import Mapping, Sequence

from gpufairy.client import Fairy
from gpufairy.client.machine import is_here
from gpufairy.client.protocol import Record
from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput


def wish(kind: str, command: Sequence[str], env: Sequence[str] | None, priority: str | None, **asked: object) -> Record:
    """Only what was asked for: what is left out is the server's to decide."""
    body: Record = {"kind": kind, **{name: value for name, value in asked.items() if value not in (None, [], ())}}
    if command:
        body["command"] = list(command)
    if env:
        body["env"] = env_of(env, os.environ)
    if priority is not None:
        body["priority"] = number_or_word(priority)
    return body


def env_of(settings: Sequence[str], own: Mapping[str, str]) -> dict[str, str]:
    return dict(_setting(text, own) for text in settings)


def _setting(text: str, own: Mapping[str, str]) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name:
        raise BadInput(f"--env {shown(text)} has no name before the =", "Write --env NAME=VALUE.")
    if equals:
        return name, value
    if name not in own:
        raise BadInput(f"--env {shown(text)} has no value, and there is no variable of that name here", "Write --env NAME=VALUE.")
    return name, own[name]


def number_or_word(text: str) -> int | str:
    try:
        return int(text) if len(text) <= 20 else text
    except ValueError:
        return text


def at_home(body: Record, fairy: Fairy) -> Record:
    """A server on this machine sees the same folders, so the session starts in the one where it was asked for."""
    if body.get("workdir") is not None or not is_here(fairy):
        return body
    try:
        return {**body, "workdir": os.getcwd()}
    except FileNotFoundError:
        raise BadInput("the current folder is gone", "Change to one that exists, or say which with --workdir.") from None
