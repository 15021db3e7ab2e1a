"""What a session left behind, on its page: a list with sizes, all of it as one archive, each file by itself. Nothing of it is shown."""
from dataclasses import dataclass
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from gpufairy.control import results
from gpufairy.control.find import find_session
from gpufairy.control.house import House
from gpufairy.core.amounts import show_size
from gpufairy.core.errors import NoSuchThing
from gpufairy.core.lifecycle import Phase
from gpufairy.core.result_file import ResultFiles
from gpufairy.core.session import Session, SessionKind
from gpufairy.web.asked import asked
from gpufairy.web.forms import caller_of
from gpufairy.web.speech import _, ngettext
from gpufairy.web.words import time_words

MOST_ROWS = 50


@dataclass(frozen=True, slots=True)
class ResultRow:
    path: str
    size: str
    href: str


@dataclass(frozen=True, slots=True)
class Results:
    answer: str
    rows: tuple[ResultRow, ...]
    more: str  # what is in the archive and not in the list
    kept: str  # for how long


def add_results(router: APIRouter, house: House) -> None:
    @router.get("/sessions/{name}/results")
    async def archive(request: Request, name: str) -> Response:
        """Everything, as a tar archive; it is never more than a chunk of it in memory."""
        session = await find_session(house, caller_of(request), name)
        chunks = await results.archive(house, session)
        if chunks is None:
            raise NoSuchThing(f"{session.name} left no results", "A job leaves results by writing files into $FAIRY_RESULTS.")
        return StreamingResponse(chunks, media_type="application/x-tar", headers=results.as_download(f"{session.name}.tar"))

    @router.get("/sessions/{name}/results/{path:path}")
    async def one_file(request: Request, name: str, path: str) -> Response:
        found = await results.file(house, await find_session(house, caller_of(request), name), path)
        headers = {"Content-Length": str(found.size_bytes), **results.as_download(path.rpartition("/")[2])}
        return StreamingResponse(found.chunks, media_type="application/octet-stream", headers=headers)


async def results_of(house: House, session: Session, path: str) -> Results | None:
    """None: it has none, and nobody looks for them there. `path`: of its page.

    Looking may be dear (a pod is asked, say), so a page that is open looks again when the session is over, and not each time before."""
    over, batch = session.phase is Phase.ENDED, session.kind is SessionKind.BATCH
    if session.started_at is None or not (over or batch):
        return None
    if asked().live_only and not over:
        return Results("", (), "", "")
    found = await results.files(house, session, MOST_ROWS)
    if not found.count and not batch:
        return None
    rows = tuple(ResultRow(one.path, show_size(one.size_bytes), f"{path}/results/{quote(one.path)}") for one in found.named)
    return Results(answer(found), rows, more_words(found), kept_words(house, session) if found.count else "")


def answer(found: ResultFiles) -> str:
    if not found.count:
        return ""
    size = show_size(found.size_bytes)
    if not found.whole:
        return _("more than {count} files, {size} of them alone").format(count=found.count, size=size)
    return ngettext("{count} file, {size}", "{count} files, {size}", found.count).format(count=found.count, size=size)


def more_words(found: ResultFiles) -> str:
    left = found.count - len(found.named)
    if not left:
        return ""
    return ngettext("and {count} more, in the archive", "and {count} more, all in the archive", left).format(count=left)


def kept_words(house: House, session: Session) -> str:
    time = time_words(house.policy.keep_ended)
    if session.phase is Phase.ENDED:
        return _("They are deleted {time} after its end: fetch what you need.").format(time=time)
    return _("It still runs, so they may grow.")
