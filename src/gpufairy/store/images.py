"""Images made here from sessions, and when images were last used. What lies on a machine is asked of its engine, not kept."""
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select

from gpufairy.core.image import ImageState, MadeImage
from gpufairy.store.reader import Reader
from gpufairy.store.rows import from_micros, to_micros
from gpufairy.store.tables import image_uses, images
from gpufairy.store.writer import Writer


class Images:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer, self._reader = writer, reader

    async def made(self) -> list[MadeImage]:
        rows = await self._reader.read(lambda connection: [dict(row) for row in connection.execute(select(images)).mappings()])
        return [made_from_row(row) for row in rows]

    async def put(self, image: MadeImage) -> None:
        await self._writer.write(lambda connection: put(connection, images, image.name, made_to_row(image)))

    async def remove(self, name: str) -> None:
        await self._writer.write(lambda connection: connection.execute(delete(images).where(images.c.name == name)) and None)

    async def uses(self) -> dict[str, datetime]:
        rows = await self._reader.read(lambda connection: connection.execute(select(image_uses.c.name, image_uses.c.used_at)).all())
        return {row.name: from_micros(row.used_at) for row in rows}

    async def used(self, name: str, at: datetime, by: str) -> None:
        row = {"name": name, "used_at": to_micros(at), "used_by": by}
        await self._writer.write(lambda connection: put(connection, image_uses, name, row))


def put(connection: Connection, table: Table, name: str, row: dict[str, Any]) -> None:
    connection.execute(delete(table).where(table.c.name == name))
    connection.execute(insert(table), [row])


def made_to_row(image: MadeImage) -> dict[str, Any]:
    return {
        "name": image.name, "image_id": image.image_id, "owner": image.owner, "made_from": image.made_from,
        "session_id": image.session_id, "session_name": image.session_name, "size_bytes": image.size_bytes,
        "packages": json.dumps(image.packages), "state": image.state.value, "made_at": to_micros(image.made_at),
        "decided_by": image.decided_by,
    }  # fmt: skip


def made_from_row(row: Mapping[str, Any]) -> MadeImage:
    values = {"packages": tuple(json.loads(row["packages"])), "state": ImageState(row["state"]), "made_at": from_micros(row["made_at"])}
    return MadeImage(**{**row, **values})
