"""Trouble: a change that was refused, for the page that shows its form again."""
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Trouble:
    """By which form, why, what to do, and what was typed there."""

    form: str
    detail: str
    next_step: str
    typed: Mapping[str, str] = field(default_factory=dict)
    status: int = 400
