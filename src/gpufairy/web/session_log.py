"""A session's log on its page: the end of it at first, then what comes, as it comes."""
from collections.abc import AsyncIterator
from dataclasses import dataclass

from fastapi import APIRouter, Query, Request
from starlette.responses import StreamingResponse

from gpufairy.control.find import find_session
from gpufairy.control.follow import all_logs, while_allowed
from gpufairy.control.house import House
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Session
from gpufairy.core.workload import WorkloadId
from gpufairy.web.forms import caller_of
from gpufairy.web.live import still_signed_in
from gpufairy.web.text import as_terminal

LOG_BYTES = 64 * 2**10  # of its end: what went wrong stands there, and a page stays quick
LAST_ATTEMPTS = 3
FARTHEST = 2**63 - 1
GOES_ON = "X-Fairy-Goes-On"  # of an answer: 1 if the session lived when it began, so that there may be more after its end


@dataclass(frozen=True, slots=True)
class LogTail:
    text: str
    cut: bool  # something stands before it
    end: int = 0  # the offset over all attempts at which it ends


def add_log(router: APIRouter, house: House) -> None:
    @router.get("/sessions/{name}/log")
    async def log(
        request: Request, name: str, from_bytes: int = Query(0, alias="from", ge=0, le=FARTHEST), follow: bool = True
    ) -> StreamingResponse:
        """As it was printed, bytes and all: the page makes it fit to be shown, and counts how far it has come."""
        session = await find_session(house, caller_of(request), name)
        live = session.phase is not Phase.ENDED
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", GOES_ON: str(int(live))}
        if not follow:
            headers["Content-Disposition"] = f'attachment; filename="{session.name}.log"'
        chunks: AsyncIterator[bytes] = all_logs(house, session.id, follow, from_bytes)
        if follow:
            request.state.give_back = house.streams.take(caller_of(request).user.name)
            chunks = while_allowed(chunks, lambda: still_signed_in(house, request), house.bells.leaving)
        return StreamingResponse(chunks, media_type="text/plain; charset=utf-8", headers=headers)


async def log_tail(house: House, session: Session) -> LogTail:
    """The end of what its last attempts printed, one after the other."""
    chunks: list[bytes] = []
    before = end = 0
    for attempt in range(1, session.attempt + 1):
        workload = WorkloadId(session.id, attempt)
        size, before = await house.engine.log_size(workload), end
        if attempt <= session.attempt - LAST_ATTEMPTS:
            end += size
            continue
        # One byte more than is shown tells that something stands before it.
        begin = max(0, size - LOG_BYTES - 1)
        read = [chunk async for chunk in house.engine.logs(workload, follow=False, from_bytes=begin)]
        chunks += read
        end = before + begin + sum(map(len, read))
    return tail_of(b"".join(chunks), end)


def tail_of(printed: bytes, end: int) -> LogTail:
    """Begins with a whole line where there is one: half a line, or half a character, says nothing."""
    cut = len(printed) > LOG_BYTES
    tail = printed[-LOG_BYTES:]
    return LogTail(as_terminal((tail.partition(b"\n")[2] or tail) if cut else tail), cut, end)
