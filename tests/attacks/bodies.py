"""Bodies that nobody expects, of the shape that a route reads: by the models that the server itself reads them with."""
import random
import types
import typing
from typing import Any

from pydantic import BaseModel

ODD_WORDS = (
    "", " ", "x", "kim", "box", "0", "-1", "1", "2", "0.5", "1e999999", "1e-9999", "9" * 5000, "2h", "1s", "999d", "16GiB", "half", "mig:1g.5gb", "\0", "a\nb", "../../etc/passwd",
    "/etc/passwd", "\ud55c\uae00", "\U0001f9da", "\u202e", "<script>", "'; drop table users; --", "${jndi:ldap://x}", "%00", "%s%n", "a" * 5000, "user:*", "team:x", "user:kim",
    "2026-11-20T14:00:00Z", "9999-12-31T23:59:59+14:00", "0001-01-01T00:00:00Z", "24:00", "email", "webhook", "kim@lab.example", "https://127.0.0.1:1/x", "admin", "full",
    "low", "batch", "true", "NaN", "Infinity", "busybox", "sha256:" + "a" * 64, "this", "2026-11", "csv", "GPU-0", "*", "[", "(" * 500, "\ufffd\uffff",
)  # fmt: skip
ODD_NUMBERS = (0, 1, 2, 3, -1, 80, 65536, 2**31, 2**53, 2**63 - 1, 2**63, 10**30, -(2**63), 0.5, 1e-300, 1e300, -0.0, 0.1, 366)


def odd_value(chance: random.Random, depth: int = 2) -> Any:
    kind = chance.randrange(10)
    if kind < 5:
        return chance.choice(ODD_WORDS)
    if kind < 8:
        return chance.choice(ODD_NUMBERS)
    if kind == 8 or depth == 0:
        return chance.choice((None, True, False, [], {}))
    if chance.random() < 0.5:
        return [odd_value(chance, depth - 1) for _ in range(chance.randint(0, 3))]
    return {chance.choice(ODD_WORDS): odd_value(chance, depth - 1) for _ in range(chance.randint(0, 3))}


def odd_body(model: type[BaseModel] | None, chance: random.Random) -> Any:
    """Most fields of the kind that is expected, so that it gets past the first check."""
    if model is None or chance.random() < 0.05:
        return odd_value(chance)
    required = [name for name, field in model.model_fields.items() if field.is_required()]
    others = [name for name in model.model_fields if name not in required]
    chosen = [*required, *chance.sample(others, min(len(others), chance.randint(0, 4)))]
    if chosen and chance.random() < 0.1:
        chosen.remove(chance.choice(chosen))
    fields = {model.model_fields[name].alias or name: fitting(model.model_fields[name].annotation, chance) for name in chosen}
    return {**fields, **({chance.choice(ODD_WORDS): 1} if chance.random() < 0.03 else {})}


def fitting(kind: Any, chance: random.Random) -> Any:
    """Of that type, and odd; now and then of another."""
    if chance.random() < 0.1:
        return odd_value(chance)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return fitting(chance.choice(inner), chance)
    if origin is typing.Annotated:
        return fitting(inner[0], chance)
    if origin is list:
        return [fitting(inner[0], chance) for _ in range(chance.randint(0, 4))]
    if origin is dict:
        return {chance.choice(ODD_WORDS): fitting(inner[1], chance) for _ in range(chance.randint(0, 3))}
    if kind is bool:
        return chance.choice((True, False))
    if kind in (int, float):
        return chance.choice(ODD_NUMBERS)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return odd_body(kind, chance)
    return None if kind is type(None) else chance.choice(ODD_WORDS)
