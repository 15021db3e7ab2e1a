"""Readings moved between servers, a block at a time. Called by history.py alone."""
import struct
import zlib
from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, insert, select, update

from gpufairy.core.errors import BadInput
from gpufairy.core.moved_block import MovedBlock
from gpufairy.core.series import Kind, Retention, Subject
from gpufairy.store.history_append import Known, numbered
from gpufairy.store.history_blocks import from_bytes
from gpufairy.store.tables import reading_blocks, reading_subjects

MOST_BYTES = 2**17  # of a block: packed, an hour of every column takes a few KiB


def read_blocks(connection: Connection, after: int, limit: int) -> list[MovedBlock]:
    return [
        MovedBlock(Subject(Kind(row.kind), row.name, row.node), row.step_s, row.start, row.body, row.number)
        for row in connection.execute(BLOCKS, {"after": after, "most": limit})
    ]


def add_blocks(connection: Connection, blocks: Sequence[MovedBlock], keeps: Retention) -> int:
    """How many were new, or know more than what was here."""
    numbers, new = numbered(connection, [block.subject for block in blocks], Known()), 0
    for block in blocks:
        known = known_tenths(block.subject.kind, block.body)
        if block.step_s not in {step.seconds for step in keeps.steps}:
            raise BadInput(f"readings of {block.step_s} s are not kept here", "Is the other server of the same version?")
        place = {"of_subject": numbers[block.subject], "of_step": block.step_s, "of_start": block.start_s}
        there = connection.execute(AT, place).first()
        if there is None:
            row = {"subject": numbers[block.subject], "step_s": block.step_s, "start": block.start_s, "body": block.body}
            connection.execute(insert(reading_blocks), [row])
        elif known_tenths(block.subject.kind, there.body) < known:
            connection.execute(update(reading_blocks).where(reading_blocks.c.number == there.number).values(body=block.body))
        else:
            continue
        new += 1
    return new


def known_tenths(kind: Kind, body: bytes) -> int:
    """For how long anything is known in it. Raises BadInput: it is no block."""
    try:
        if len(body) > MOST_BYTES:
            raise ValueError(f"{len(body)} bytes of one stretch")
        return int(from_bytes(kind, body).tenths.sum())
    except (ValueError, IndexError, OverflowError, struct.error, zlib.error) as error:
        raise BadInput(f"these readings cannot be read: {str(error)[:100]}", "Is the other server of the same version?") from None


row = reading_blocks.c
BLOCKS = (
    select(reading_blocks, reading_subjects.c.kind, reading_subjects.c.name, reading_subjects.c.node)
    .join(reading_subjects, reading_subjects.c.number == row.subject)
    .where(row.number > bindparam("after"))
    .order_by(row.number)
    .limit(bindparam("most"))
)
AT = select(row.number, row.body).where(
    row.subject == bindparam("of_subject"), row.step_s == bindparam("of_step"), row.start == bindparam("of_start")
)
