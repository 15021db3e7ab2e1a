"""History: readings over time. Reports are kept as they came, folded into blocks of 10 s, 1 min and 1 h, and dropped by age.

A report is written before it is acknowledged. It is folded once: the blocks and the mark that says so are one transaction.
"""
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from gpufairy.core.moved_block import MovedBlock
from gpufairy.core.series import Floats, Kind, Point, Retention, Series, Subject, Total, step_for
from gpufairy.core.usage import HeldSeat
from gpufairy.store.history_append import Known, sent_before, write_reports
from gpufairy.store.history_arrival import Arrival
from gpufairy.store.history_fold import due_nodes, fold, prune_blocks, prune_reports, write_fold
from gpufairy.store.history_holds import holds_within
from gpufairy.store.history_move import add_blocks, read_blocks
from gpufairy.store.history_read import Asked, grids_of, series_of, totals_of
from gpufairy.store.reader import Reader
from gpufairy.store.writer import Writer

FOLD_AFTER = timedelta(minutes=5)  # a block is written again with every fold: so seldom; those who read look at the rest as it came
FOLDED_AT_ONCE = 20  # the part of the nodes, one in so many, whose turn it may be at once: so that a crowd spreads out by itself


class History:
    def __init__(self, writer: Writer, reader: Reader, keeps: Retention = Retention()) -> None:
        self._writer, self._reader, self.keeps = writer, reader, keeps
        self._known = Known()  # numbers of subjects that are in the database for sure

    async def append(self, node: str, at: datetime, points: Sequence[Point], *, seconds: float, arrived_at: datetime) -> bool:
        """False: this time was told already. `seconds`: what the report stands for."""
        [is_new] = await self.append_all([Arrival(node, at, at, arrived_at, seconds, tuple(points))])
        return is_new

    async def append_all(self, arrivals: Sequence[Arrival]) -> list[bool]:
        """Of one node, in one go. Which of them are new."""
        if not arrivals:
            return []
        new, numbers = await self._writer.write(partial(write_reports, arrivals=arrivals, known=self._known, keeps=self.keeps))
        self._known.remember(numbers)
        return new

    async def sent_before(self, node: str, sent: Sequence[datetime]) -> set[datetime]:
        """Of these times, by that host's own clock, the ones whose reports came of late: so that nobody works on them again."""
        return await self._reader.read(partial(sent_before, node=node, sent=sent))

    async def roll_up(self, now: datetime, fold_after: timedelta = FOLD_AFTER) -> bool:
        """Folds what has waited long enough and drops what is old enough, a little of each. True: there is more to do."""
        due, nodes = await self._reader.read(partial(due_nodes, before=now - fold_after))
        turn = due[: max(1, nodes // FOLDED_AT_ONCE)]
        left = [await self._fold(node, now) for node in turn]
        dropped = await self._writer.write(partial(prune_reports, before=now - self.keeps.raw))
        for step in self.keeps.steps:
            if step.keep is not None:
                dropped = await self._writer.write(partial(prune_blocks, step_s=step.seconds, before=now - step.keep)) or dropped
        return any(left) or len(due) > len(turn) or dropped

    async def _fold(self, node: int, now: datetime) -> bool:
        """Prepared beside the writer, which others wait for; written only if nobody has folded in between. True: more reports are left."""
        prepared = await self._reader.read(partial(fold, node=node, steps=self.keeps.steps, now=now))
        if prepared is None:
            return False
        await self._writer.write(partial(write_fold, folded=prepared))
        return prepared.is_full

    async def read(
        self, kind: Kind, name: str, since: datetime, until: datetime, *, now: datetime, step: int | None = None, node: str | None = None
    ) -> Series:
        """`step`: seconds, one of those that are kept, or RAW; None: the finest that reaches so far and is not too long."""
        chosen = step_for(since, until, now, self.keeps) if step is None else step
        asked = Asked(kind, name, since, until, chosen, node)
        return await self._reader.read(partial(series_of, asked=asked))

    async def grids(
        self, kind: Kind, names: Sequence[str], since: datetime, until: datetime, *, step: int
    ) -> dict[str, dict[str, Floats]]:
        """The means of many at once, by name and column: one value for each step from that of `since` to that of `until`."""
        return await self._reader.read(partial(grids_of, asked=Asked(kind, "", since, until, step), names=names))

    async def totals(
        self, kind: Kind, since: datetime, until: datetime, *, step: int, names: Sequence[str] | None = None
    ) -> dict[Subject, dict[str, Total]]:
        """Each column of each subject of that kind, added up. `since` should lie on the beginning of a step."""
        asked = Asked(kind, "", since, until, step)
        return await self._reader.read(partial(totals_of, asked=asked, names=names))

    async def blocks(self, after: int, limit: int) -> list[MovedBlock]:
        """To be moved elsewhere. What is not folded yet is not in them."""
        return await self._reader.read(partial(read_blocks, after=after, limit=limit))

    async def add_blocks(self, blocks: Sequence[MovedBlock]) -> int:
        """Of another server. How many told something new."""
        return await self._writer.write(partial(add_blocks, blocks=blocks, keeps=self.keeps))

    async def held(self, since: datetime, until: datetime, owner: str | None = None) -> list[HeldSeat]:
        """Seats that were given back, of which some time lies in between."""
        return await self._reader.read(partial(holds_within, since=since, until=until, owner=owner))
