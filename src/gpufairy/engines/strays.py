"""What a workload leaves behind in its session when its first process is gone: ended, so that it holds no GPU unseen."""
import asyncio

from gpufairy.engines.pidfd import kill_member, reap
from gpufairy.engines.proc import pids_by_sid, stat_of


class Strays:
    def __init__(self) -> None:
        self._sids: set[int] = set()  # of leaders that are gone and were not looked after yet

    def add(self, sid: int) -> None:
        self._sids.add(sid)

    async def end(self) -> bool:
        """Whether there were any. One pass over /proc, however many have ended; those that do not die are tried again."""
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
