"""Folding reports into blocks, and dropping what is old. Called by history.py alone."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from gpufairy.core.series import Kind, Step
from gpufairy.store.history_blocks import BUCKETS_IN_BLOCK, Block, from_bytes, merged, to_bytes
from gpufairy.store.history_reports import Place, blocks_of, unpack
from gpufairy.store.rows import to_micros
from gpufairy.store.tables import reading_blocks, reading_folds, reading_reports

MOST_REPORTS = 400  # in one fold: half an hour of one node
MOST_DROPPED = 2000  # rows in one go: others wait for the writer meanwhile
SUBJECTS_ASKED = 500  # in one statement


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks as they are to be, and which reports are in them then."""

    node: int
    after: int  # the last report that was folded before
    upto: int
    changed: Sequence[tuple[int, bytes]]  # with the row's number
    added: Sequence[tuple[Place, bytes]]
    is_full: bool  # there may be more reports than these


def due_nodes(connection: Connection, before: datetime) -> tuple[list[int], int]:
    """Nodes with a report that has waited since then, the longest first; and how many nodes there are at all."""
    rows = connection.execute(FIRST_WAITING).all()
    limit = to_micros(before)
    waiting = sorted((row.since, row.node) for row in rows if row.since is not None and row.since <= limit)
    return [node for _, node in waiting], len(rows)


def fold(connection: Connection, node: int, steps: Sequence[Step], now: datetime) -> Folded | None:
    after = folded_upto(connection, node)
    rows = connection.execute(WAITING, {"of_node": node, "after": after}).all()
    if not rows:
        return None
    new: dict[Place, tuple[Kind, Block]] = {}
    for kind, readings in unpack((row.at, row.body) for row in rows).items():
        for step in steps:
            oldest = None if step.keep is None else int((now - step.keep).timestamp())
            for place, block in blocks_of(readings, step.seconds):
                if oldest is None or place.start >= oldest - step.seconds * block.end:
                    new[place] = (kind, block)
    there = blocks_at(connection, list(new))
    changed, added = [], []
    for place, (kind, block) in new.items():
        if place not in there:
            added.append((place, to_bytes(kind, block)))
            continue
        number, body = there[place]
        changed.append((number, to_bytes(kind, merged(kind, from_bytes(kind, body), block))))
    return Folded(node, after, rows[-1].number, changed, added, len(rows) == MOST_REPORTS)


def folded_upto(connection: Connection, node: int) -> int:
    return int(connection.execute(FOLDED, {"of_node": node}).scalar() or 0)


def blocks_at(connection: Connection, places: Sequence[Place]) -> Mapping[Place, tuple[int, bytes]]:
    """Asked for by step and start, of which there are few: a list of whole places would be looked up by no index."""
    together: dict[tuple[int, int], list[int]] = {}
    for place in places:
        together.setdefault((place.step_s, place.start), []).append(place.subject)
    found: dict[Place, tuple[int, bytes]] = {}
    for (step_s, start), subjects in together.items():
        for begin in range(0, len(subjects), SUBJECTS_ASKED):
            asked = {"of_step": step_s, "of_start": start, "of_subjects": subjects[begin : begin + SUBJECTS_ASKED]}
            for row in connection.execute(AT_PLACES, asked):
                found[Place(row.subject, step_s, start)] = (row.number, row.body)
    return found


def write_fold(connection: Connection, folded: Folded) -> None:
    """Nothing, if the mark has moved: then these reports are in the blocks already."""
    mark = {"of_node": folded.node, "was": folded.after, "upto": folded.upto}
    if connection.execute(MOVE_MARK, mark).rowcount != 1:
        return
    if folded.changed:
        connection.execute(CHANGE_BLOCK, [{"of_number": number, "new_body": body} for number, body in folded.changed])
    if folded.added:
        rows: list[dict[str, Any]] = [
            {"subject": place.subject, "step_s": place.step_s, "start": place.start, "body": body} for place, body in folded.added
        ]
        connection.execute(insert(reading_blocks), rows)


def prune_reports(connection: Connection, before: datetime) -> bool:
    """By when they arrived: one that was late is kept as long, so that it is known when it is sent again. Never before it is folded."""
    return connection.execute(DROP_REPORTS, {"before": to_micros(before)}).rowcount == MOST_DROPPED


def prune_blocks(connection: Connection, step_s: int, before: datetime) -> bool:
    # The newest bucket of a block may be as late as its end, and it goes as a whole.
    limit = int(before.timestamp()) - step_s * BUCKETS_IN_BLOCK
    return connection.execute(DROP_BLOCKS, {"of_step": step_s, "before": limit}).rowcount == MOST_DROPPED


reports, folds, blocks = reading_reports, reading_folds, reading_blocks
FIRST_WAITING = select(
    folds.c.node,
    select(reports.c.arrived_at)
    .where(reports.c.node == folds.c.node, reports.c.number > folds.c.report)
    .order_by(reports.c.number)
    .limit(1)
    .scalar_subquery()
    .label("since"),
)
FOLDED = select(folds.c.report).where(folds.c.node == bindparam("of_node"))
WAITING = (
    select(reports.c.number, reports.c.at, reports.c.body)
    .where(reports.c.node == bindparam("of_node"), reports.c.number > bindparam("after"))
    .order_by(reports.c.number)
    .limit(MOST_REPORTS)
)
AT_PLACES = select(blocks.c.number, blocks.c.subject, blocks.c.body).where(
    blocks.c.subject.in_(bindparam("of_subjects", expanding=True)),
    blocks.c.step_s == bindparam("of_step"),
    blocks.c.start == bindparam("of_start"),
)
MOVE_MARK = (
    update(folds).where(folds.c.node == bindparam("of_node"), folds.c.report == bindparam("was")).values(report=bindparam("upto"))
)
CHANGE_BLOCK = update(blocks).where(blocks.c.number == bindparam("of_number")).values(body=bindparam("new_body"))
DROP_REPORTS = delete(reports).where(
    reports.c.number.in_(
        select(reports.c.number)
        .join(folds, folds.c.node == reports.c.node)
        .where(reports.c.arrived_at < bindparam("before"), reports.c.number <= folds.c.report)
        .limit(MOST_DROPPED)
    )
)
DROP_BLOCKS = delete(blocks).where(
    blocks.c.number.in_(
        select(blocks.c.number).where(blocks.c.step_s == bindparam("of_step"), blocks.c.start < bindparam("before")).limit(MOST_DROPPED)
    )
)
