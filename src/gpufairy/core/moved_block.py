"""A stretch of a subject's readings, as it moves between servers: the bytes are the store's own."""
import base64
from dataclasses import dataclass
from typing import Any

from gpufairy.core.errors import BadInput
from gpufairy.core.series import Kind, Subject


@dataclass(frozen=True, slots=True)
class MovedBlock:
    subject: Subject
    step_s: int
    start_s: int  # since 1970
    body: bytes
    number: int = 0  # where it came from: to go on behind it


def block_to_plain(block: MovedBlock) -> dict[str, Any]:
    subject = block.subject
    return {
        "kind": subject.kind.value, "name": subject.name, "node": subject.node, "step_s": block.step_s, "start_s": block.start_s,
        "body": base64.b64encode(block.body).decode(),
    }  # fmt: skip


def block_from_plain(plain: dict[str, Any]) -> MovedBlock:
    """Raises BadInput."""
    try:
        subject = Subject(Kind(plain["kind"]), str(plain["name"])[:255], str(plain["node"])[:255])
        return MovedBlock(subject, int(plain["step_s"]), int(plain["start_s"]), base64.b64decode(plain["body"], validate=True))
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"these are no readings: {type(error).__name__} {str(error)[:100]}", "Send what the other server gave.") from None
