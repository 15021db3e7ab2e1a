"""How GPUs are shared, as admins said it, and what self-tests found to hold."""
import json
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from gpufairy.core.node import Sharing
from gpufairy.core.sharing import Attempt, IsolationTest, ShareRule, Verdict
from gpufairy.store.reader import Reader
from gpufairy.store.rows import from_micros, to_micros
from gpufairy.store.tables import isolation_tests, share_rules
from gpufairy.store.writer import Writer


class Shares:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer, self._reader = writer, reader

    async def rules(self) -> list[ShareRule]:
        rows = await self._reader.read(lambda connection: connection.execute(select(share_rules).order_by(share_rules.c.of)).all())
        return [ShareRule(row.of, row.fgpu_parts, None if row.sharing is None else Sharing(row.sharing)) for row in rows]

    async def set_rule(self, rule: ShareRule) -> None:
        await self._writer.write(lambda connection: _set_rule(connection, rule))

    async def remove_rule(self, of: str) -> None:
        await self._writer.write(lambda connection: _remove_rule(connection, of))

    async def tests(self) -> list[IsolationTest]:
        rows = await self._reader.read(lambda connection: [dict(row) for row in connection.execute(select(isolation_tests)).mappings()])
        return [_test(row) for row in rows]

    async def put_test(self, test: IsolationTest) -> None:
        """The last one counts: it takes the place of the one before."""
        await self._writer.write(lambda connection: _put_test(connection, test))


def _set_rule(connection: Connection, rule: ShareRule) -> None:
    _remove_rule(connection, rule.of)
    connection.execute(insert(share_rules), [{"of": rule.of, "fgpu_parts": rule.fgpu_parts, "sharing": rule.sharing}])


def _remove_rule(connection: Connection, of: str) -> None:
    connection.execute(delete(share_rules).where(share_rules.c.of == of))


def _put_test(connection: Connection, test: IsolationTest) -> None:
    there = (isolation_tests.c.gpu == test.gpu) & (isolation_tests.c.sharing == test.sharing)
    connection.execute(delete(isolation_tests).where(there))
    attempts = [{"way": one.way, "of": one.of, "verdict": one.verdict, "found": one.found} for one in test.attempts]
    row = {"gpu": test.gpu, "sharing": test.sharing, "node": test.node, "at": to_micros(test.at), "driver": test.driver}
    connection.execute(insert(isolation_tests), [{**row, "attempts": json.dumps(attempts)}])


def _test(row: dict[str, Any]) -> IsolationTest:
    attempts = tuple(Attempt(one["way"], one["of"], Verdict(one["verdict"]), one["found"]) for one in json.loads(row["attempts"]))
    return IsolationTest(row["node"], row["gpu"], Sharing(row["sharing"]), from_micros(row["at"]), attempts, row["driver"])
