"""What a workload leaves behind when its first process is gone: ended, so that it holds no GPU unseen.

That is whoever is of its session; and, if others than this server may have opened something in it, whoever was given its token file.
"""
import asyncio
from functools import partial

from gpufairy.engines.pidfd import kill_if, kill_member, reap
from gpufairy.engines.proc import has_variable, pids_by_sid, pids_with_variable, stat_of

TOKEN_FILE = b"FAIRY_TOKEN_FILE"


class Strays:
    def __init__(self) -> None:
        self._sids: set[int] = set()  # of leaders that are gone and were not looked after yet
        self._token_files: set[bytes] = set()

    def add(self, sid: int) -> None:
        self._sids.add(sid)

    def add_token_file(self, path: bytes) -> None:
        self._token_files.add(path)

    async def end(self) -> bool:
        """Whether there were any. One pass over /proc, however many have ended; those that do not die are tried again."""
        of_sessions, of_others = await self._end_sessions(), await self._end_opened_by_others()
        return of_sessions or of_others

    async def _end_opened_by_others(self) -> bool:
        if not self._token_files:
            return False
        wanted = frozenset(self._token_files)
        pids = await asyncio.to_thread(pids_with_variable, TOKEN_FILE, wanted)
        for pid in pids:
            kill_if(pid, partial(has_variable, pid, TOKEN_FILE, wanted))
        if not pids:
            self._token_files -= wanted
        return bool(pids)

    async def _end_sessions(self) -> bool:
        if not self._sids:
            return False
        running = await asyncio.to_thread(pids_by_sid)
        found = False
        for sid in list(self._sids):
            members = [] if is_taken(sid) else running.get(sid, [])
            for pid in members:
                kill_member(pid, sid)
            reap(sid)
            if members:
                found = True
            else:
                self._sids.discard(sid)
        return found


def is_taken(sid: int) -> bool:
    """Whether the number has been given to another process: then nobody of the old session is left, and nobody may be touched."""
    leader = stat_of(sid)
    return leader is not None and not leader.zombie
