"""What a session left in its folder of results: as one archive, as a list, file by file. API and pages call these."""
from collections.abc import AsyncIterator
from urllib.parse import quote

from gpufairy.control.house import House
from gpufairy.core.result_file import ResultBytes, ResultFiles
from gpufairy.core.session import Session
from gpufairy.core.workload import workload_id

MOST_NAMED = 1000  # files; the archive has them all


async def archive(house: House, session: Session) -> AsyncIterator[bytes] | None:
    """A tar stream. None: there is nothing in it."""
    chunks = house.engine.results(workload_id(session))
    first = await anext(chunks, None)
    return None if first is None else chained(first, chunks)


async def chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk


async def files(house: House, session: Session, most: int = MOST_NAMED) -> ResultFiles:
    return await house.engine.result_files(workload_id(session), most)


async def file(house: House, session: Session, path: str) -> ResultBytes:
    return await house.engine.result_file(workload_id(session), path)


def as_download(name: str) -> dict[str, str]:
    """Headers that make a browser keep it and never show it: what is in it was written by a job, and the name is a stranger's too."""
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in name)
    told = f"attachment; filename=\"{plain or 'file'}\"; filename*=UTF-8''{quote(name, safe='')}"
    return {"Content-Disposition": told, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
