"""Reporter: tells the server what was seen here, signed, every few seconds. What cannot be sent is kept and sent later."""
import asyncio
import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from gpufairy import __version__
from gpufairy.client.errors import Problem, ServerNotReached
from gpufairy.client.protocol import Call, path_of
from gpufairy.client.transport import Transport
from gpufairy.core.mean_sample import mean_sample
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.sample_plain import to_plain
from gpufairy.node.identity import Identity
from gpufairy.node.pace import Pace
from gpufairy.node.spool import Plain, Spool

log = logging.getLogger("gpufairy.agent")

ANSWER_LIMIT_S = 10.0  # a server that needs longer for this has other troubles than us
MOST_LATE_BYTES = 512 * 1024  # of what goes with one report: the server takes 1 MiB
BUSY = 503
BEGIN_ANEW = 409  # what a server says that does not know the epoch
MOST_TOLD = 10_000  # rules, labels, users
LONGEST_EPOCH = 200
MOST_SAID, LONGEST_SAID = 3, 400  # of the samples that a server refused, in the log; in characters
REFUSED = (400, 401, 403, 404, 409, 413)  # the server answered, and did not take it
NEVER = (400, 404, 405, 413)  # nor will it, of a report of another kind: an older server does not know of it


@dataclass(frozen=True, slots=True)
class Told:
    """What the server says back."""

    name_rules: tuple[str, ...] = ()
    user_labels: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


class Sent(Enum):
    """What became of a report."""

    TAKEN = "taken"
    REFUSED = "refused"  # the server will never take it
    NOT_NOW = "not now"


@dataclass(slots=True)
class Standing:
    """Where the agent stands with its server, for people who ask it."""

    accepted: bool | None = None  # None: not heard yet
    reached: bool | None = None
    words: str = "the server has not been asked yet"
    sent: int = 0
    late: int = 0  # of these, delivered later than they were made


@dataclass(slots=True)
class Reporter:
    name: str
    url: str
    identity: Identity
    spool: Spool
    on_told: Callable[[Told], None] = lambda _told: None
    on_walk_asked: Callable[[str], object] = lambda _when: None  # an admin wants the disks walked through; the same word is the same wish
    standing: Standing = field(default_factory=Standing)
    pace: Pace = field(default_factory=Pace)
    _line: Transport | None = None
    _epoch: str | None = None
    _sequence: int = 0
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)  # a report that was given up at the end is still on its way

    async def report(self, samples: Sequence[NodeSample]) -> bool:
        """One report of what was seen since the last one. True: the server has it."""
        return await asyncio.to_thread(self._report, to_plain(mean_sample(samples))) if samples else False

    async def tell(self, part: str, body: bytes) -> Sent:
        """A report of another kind than samples, by the name of its route. Whoever sends it keeps it until it was taken."""
        return await asyncio.to_thread(self._tell_part, part, body)

    def _tell_part(self, part: str, body: bytes) -> Sent:
        with self._one_at_a_time:
            try:
                return Sent.TAKEN if self._in_line(lambda: self._post(part, body)) else Sent.NOT_NOW
            except ServerNotReached:
                return Sent.NOT_NOW
            except Problem as problem:
                log.warning("the server does not take a report of %s: %s", part, problem)
                return Sent.REFUSED if problem.status in NEVER else Sent.NOT_NOW

    def end(self, samples: Sequence[NodeSample] = ()) -> None:
        """`samples`: seen and not told yet, for the next start. Waits for a report that is on its way."""
        with self._one_at_a_time:
            if samples:
                self.spool.keep([to_plain(mean_sample(samples))])
            if self._line is not None:
                self._line.close()

    def _report(self, live: Plain) -> bool:
        with self._one_at_a_time:
            return self._tell(live)

    def _tell(self, live: Plain) -> bool:
        late = self._late()
        try:
            if not self._deliver([*late, live]):
                self.spool.keep([live])
                return False
        except ServerNotReached as error:
            if isinstance(error.__cause__, TimeoutError):
                self.pace.was_too_much()
            self._say(reached=False, words=str(error))
            self.spool.keep([live])
            return False
        except Problem as problem:
            self._refused(problem, live, late)
            return False
        self.spool.delivered(len(late))
        self.pace.went_well(more_waits=bool(self.spool))
        self.standing.sent += 1
        self.standing.late += len(late)
        self._say(reached=True, words="reports are taken")
        return True

    def _deliver(self, samples: Sequence[Plain]) -> bool:
        return self._in_line(lambda: self._send(samples))

    def _in_line(self, send: Callable[[], object]) -> bool:
        """False: an admin has not let this host in. A server that was started anew wants another hello, and gets it at once."""
        if self._epoch is None and not self._say_hello():
            return False
        try:
            send()
        except Problem as problem:
            if problem.status != BEGIN_ANEW:
                raise
            if not self._say_hello():
                return False
            send()
        return True

    def _late(self) -> list[Plain]:
        late: list[Plain] = []
        size = 0
        for sample in self.spool.oldest(self.pace.late):
            size += len(json.dumps(sample))
            if size > MOST_LATE_BYTES and late:
                break
            late.append(sample)
        return late

    def _say_hello(self) -> bool:
        answer = self._ask(Call("POST", path_of("agents", "hello"), {"name": self.name, "key": self.identity.public}, harmless=True))
        self._epoch, self._sequence = _epoch(answer.get("epoch")), 0
        self.standing.accepted = self._epoch is not None
        if self._epoch is None:
            key = self.identity.fingerprint
            self._say(reached=True, words=f"an admin must accept this host: fairy node accept {self.name}   (key {key})")
        return self._epoch is not None

    def _send(self, samples: Sequence[Plain]) -> None:
        body = json.dumps({"version": __version__, "samples": list(samples)}, separators=(",", ":")).encode()
        answer = self._post("reports", body)
        self._hear(answer)
        for refused in _list(answer.get("refused"))[:MOST_SAID]:
            log.warning("the server does not believe a sample: %s", str(refused)[:LONGEST_SAID])

    def _post(self, part: str, body: bytes) -> dict[str, Any]:
        self._sequence += 1
        signature = self.identity.signature(self.name, self._epoch or "", self._sequence, body)
        stamp = (("Fairy-Epoch", self._epoch or ""), ("Fairy-Sequence", str(self._sequence)), ("Fairy-Signature", signature))
        return self._ask(Call("POST", path_of("agents", self.name, part), raw=body, extra=stamp, harmless=True))

    def _refused(self, problem: Problem, live: Plain, late: Sequence[Plain]) -> None:
        """What it will never take must not be sent for ever; the rest is kept, and sent after another hello."""
        if problem.status in (400, 413):
            log.warning("%d samples are given up: the server does not take them: %s", 1 + len(late), problem)
            self.spool.delivered(len(late))
        else:
            self.spool.keep([live])
        if problem.status == BUSY:
            self.pace.was_too_much()
        else:
            self._epoch = None
        self._say(reached=problem.status in REFUSED, words=str(problem))

    def _ask(self, call: Call) -> dict[str, Any]:
        if self._line is None:
            self._line = Transport(self.url, None, ANSWER_LIMIT_S)
        answer = self._line.ask(call)
        return answer if isinstance(answer, dict) else {}

    def _hear(self, answer: dict[str, Any]) -> None:
        """Whatever it is: a server that speaks oddly must not end the agent."""
        names = ("name_rules", "user_labels", "users")
        if any(name in answer for name in names):
            self.on_told(Told(*(tuple(_words(answer.get(name))) for name in names)))
        asked = answer.get("walk_disk")
        if isinstance(asked, str):
            self.on_walk_asked(asked[:LONGEST_EPOCH])

    def _say(self, *, reached: bool, words: str) -> None:
        """In the log only when it changes: an agent may wait for its server for days."""
        if words != self.standing.words:
            log.log(logging.INFO if reached else logging.WARNING, "%s", words)
        self.standing.reached, self.standing.words = reached, words


def _epoch(found: object) -> str | None:
    """It goes into a header."""
    return found if isinstance(found, str) and found.isascii() and found.isprintable() and len(found) <= LONGEST_EPOCH else None


def _words(found: object) -> list[str]:
    return [word[:200] for word in _list(found)[:MOST_TOLD] if isinstance(word, str)]


def _list(found: object) -> list[Any]:
    return found if isinstance(found, list) else []
