"""Pools, as admins asked for them and as far as they have come."""
import json
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from gpufairy.core.pool import Cloud, Machine, Pool, PoolState
from gpufairy.core.steps import Event
from gpufairy.store.pool_tables import pools
from gpufairy.store.reader import Reader
from gpufairy.store.rows import from_micros, to_micros
from gpufairy.store.session_writes import write_events
from gpufairy.store.writer import Writer


class Pools:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer, self._reader = writer, reader

    async def all(self) -> list[Pool]:
        rows = await self._reader.read(lambda connection: connection.execute(select(pools).order_by(pools.c.name)).mappings().all())
        return [_pool(dict(row)) for row in rows]

    async def put(self, pool: Pool, told: Event | None = None) -> None:
        """`told`: what somebody did about it, written with it or not at all."""
        await self._writer.write(lambda connection: _put(connection, pool, told))

    async def remove(self, name: str) -> None:
        await self._writer.write(lambda connection: _remove(connection, name))


def _put(connection: Connection, pool: Pool, told: Event | None) -> None:
    _remove(connection, pool.name)
    write_events(connection, [] if told is None else [told])
    plain = {"machine": json.dumps(asdict(pool.machine)), "boots_s": json.dumps(pool.boots_s), "options": json.dumps(dict(pool.options))}
    row = {
        "name": pool.name, "cloud": pool.cloud.value, "cluster": pool.cluster, "least": pool.least, "most": pool.most,
        "made_by": pool.made_by, "made_at": to_micros(pool.made_at), "state": pool.state.value, "trouble": pool.trouble, **plain,
    }  # fmt: skip
    connection.execute(insert(pools), [row])


def _remove(connection: Connection, name: str) -> None:
    connection.execute(delete(pools).where(pools.c.name == name))


def _pool(row: dict[str, Any]) -> Pool:
    read = {
        "cloud": Cloud(row["cloud"]), "machine": Machine(**json.loads(row["machine"])), "made_at": from_micros(row["made_at"]),
        "state": PoolState(row["state"]), "boots_s": tuple(json.loads(row["boots_s"])), "options": json.loads(row["options"]),
    }  # fmt: skip
    return Pool(**{**row, **read})
