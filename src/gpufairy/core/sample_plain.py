"""A NodeSample as plain values, to be sent as JSON. What has its default is left out: most of what could be known of a GPU is not.

Reading it back is `wire`'s: whoever receives a sample does not trust its sender.
"""
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any


def to_plain(value: Any) -> Any:
    if is_dataclass(value):
        found = ((name, getattr(value, name), default) for name, default in _fields(value.__class__))
        return {name: to_plain(part) for name, part, default in found if part is not default and part != default}
    if isinstance(value, tuple):
        return [to_plain(part) for part in value]
    return value.isoformat() if isinstance(value, datetime) else value


@lru_cache(maxsize=64)
def _fields(kind: type) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.default if field.default is not MISSING else MISSING) for field in fields(kind))
