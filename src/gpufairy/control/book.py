"""Book: every live session as last written, sorted for those who look. The store is the truth; the only writer keeps this in step."""
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from gpufairy.core.lifecycle import Phase
from gpufairy.core.queue import Queue
from gpufairy.core.session import Session, SessionKind, Wanted

NAMES_REMEMBERED = 20_000  # of ended sessions, so that no made-up name comes twice soon


class Book:
    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._names: dict[tuple[str, str], str] = {}
        self.queues: dict[str, Queue] = {}  # by owner: those who wait for room
        self._gangs: dict[str, dict[str, Session]] = {}  # of the queues' sessions those who start together, by gang
        self.held_back: dict[str, Session] = {}  # those who wait for another session's end
        self.active: dict[str, Session] = {}  # all that an engine may have to do with
        self._interactive: dict[str, dict[str, Session]] = {}  # by owner: few, however long the queue is
        self._may_line_up: set[str] = set()
        self._reserved: set[tuple[str, str]] = set()
        self._coming_of: Counter[str] = Counter()  # names reserved, by owner
        self._held_back_of: Counter[str] = Counter()
        self._ended_names: dict[tuple[str, str], None] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def get(self, session_id: str) -> Session | None:
        return self._sessions.get(session_id)

    def named(self, owner: str, name: str) -> Session | None:
        return self._sessions.get(self._names.get((owner, name), ""))

    def is_taken(self, owner: str, name: str) -> bool:
        return (owner, name) in self._names or (owner, name) in self._reserved

    def was_used(self, owner: str, name: str) -> bool:
        """Taken, or the name of a session that has ended of late."""
        return self.is_taken(owner, name) or (owner, name) in self._ended_names

    def remember_name(self, session: Session) -> None:
        self._ended_names[session.owner, session.name] = None
        if len(self._ended_names) > NAMES_REMEMBERED:
            del self._ended_names[next(iter(self._ended_names))]

    @contextmanager
    def reserved(self, owner: str, names: Iterable[str]) -> Iterator[None]:
        """Nobody else is given these names while they are being written."""
        wanted = {(owner, name) for name in names}
        self._reserved |= wanted
        self._coming_of[owner] += len(wanted)
        try:
            yield
        finally:
            self._reserved -= wanted
            self._coming_of[owner] -= len(wanted)

    def waiting(self) -> int:
        return sum(len(queue) for queue in self.queues.values()) + len(self.held_back)

    def waiting_of(self, owner: str) -> int:
        """Those that are just being written too, so that nobody gets past a limit by asking for many at once."""
        return len(self.queues.get(owner, ())) + self._held_back_of[owner] + self._coming_of[owner]

    def interactive_of(self, owner: str) -> list[Session]:
        """Those they may come into, oldest first."""
        return list(self._interactive.get(owner, {}).values())

    def holding(self) -> Iterable[Session]:
        return [session for session in self.active.values() if session.holds_gpus]

    def gangs(self) -> dict[str, tuple[Session, ...]]:
        return {gang: tuple(sorted(members.values(), key=lambda one: one.number)) for gang, members in self._gangs.items()}

    def put(self, session: Session) -> None:
        """The session as it is now; an ended one leaves the book."""
        self._take_out(session.id)
        if session.phase is Phase.ENDED:
            self.remember_name(session)
            return
        self._sessions[session.id] = session
        self._names[session.owner, session.name] = session.id
        if session.kind is SessionKind.INTERACTIVE:
            self._interactive.setdefault(session.owner, {})[session.id] = session
        if session.phase is not Phase.QUEUED or session.wanted is Wanted.STOP:
            self.active[session.id] = session
        elif session.request.after and session.id not in self._may_line_up:
            self.held_back[session.id] = session
            self._held_back_of[session.owner] += 1
        else:
            self.queues.setdefault(session.owner, Queue()).add(session)
            if session.request.gang is not None:
                self._gangs.setdefault(session.request.gang, {})[session.id] = session

    def line_up(self, session: Session) -> None:
        """What it waited for has ended well."""
        self._may_line_up.add(session.id)
        self.put(session)

    def _take_out(self, session_id: str) -> None:
        old = self._sessions.pop(session_id, None)
        if old is None:
            return
        if self._names.get((old.owner, old.name)) == session_id:
            del self._names[old.owner, old.name]
        if old.kind is SessionKind.INTERACTIVE:
            del self._interactive[old.owner][session_id]
            if not self._interactive[old.owner]:
                del self._interactive[old.owner]
        if self.active.pop(session_id, None) is not None:
            return
        if self.held_back.pop(session_id, None) is not None:
            self._held_back_of[old.owner] -= 1
        else:
            queue = self.queues[old.owner]
            queue.remove(old)
            if not queue:
                del self.queues[old.owner]
            self._leave_gang(old)

    def _leave_gang(self, session: Session) -> None:
        gang = self._gangs.get(session.request.gang or "")
        if gang is not None:
            gang.pop(session.id, None)
            if not gang:
                del self._gangs[session.request.gang or ""]
