"""A recorded history of what clients asked and were told, with times, and the small model that it must fit: one row for each acknowledged submit,
revisions and attempts that never go back, an end that is final, a stop that was promised and came.
"""
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from witness import work

from gpufairy.client import Fairy
from gpufairy.client.errors import Problem, ServerNotReached

RANKS = {"PENDING": 0, "STARTING": 1, "RUNNING": 2, "STOPPING": 3, "ENDED": 4}
FINAL = ("id", "outcome", "exit_code", "ended_at", "attempt")
NOT_FOUND = 404
PAUSE_S, AGAIN_S = 0.02, 0.2  # between two calls, and after one without an answer


@dataclass(frozen=True, slots=True)
class Said:
    """One call: `answer` is the session as it was told, or None where there was none; `status` of a refusal."""

    what: str  # submit, stop or show
    name: str
    began_s: float
    ended_s: float
    answer: Mapping[str, Any] | None = None
    status: int | None = None


class Asker(threading.Thread):
    """Submits, stops and shows sessions of its own at random, through whatever happens to the server."""

    def __init__(self, client: Fairy, label: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.client, self.label, self.chance, self.done = client, label, random.Random(seed), threading.Event()
        self.history: list[Said] = []
        self.names: list[str] = []

    def run(self) -> None:
        number = 0
        while not self.done.wait(PAUSE_S):
            what = self.chance.choices(("submit", "stop", "show"), (3, 1, 4))[0]
            if what == "submit" or not self.names:
                number += 1
                self.submit(f"{self.label}-{number}")
            else:
                name = self.chance.choice(self.names[-20:])
                self.ask(what, name)

    def submit(self, name: str) -> None:
        """Until it is acknowledged, each time with the same key."""
        then = "sleep 3600 & wait" if self.chance.random() < 0.1 else f"sleep {self.chance.uniform(0, 0.5):.2f}"
        body = {"name": name, "gpus": "0.05", "cpus": "0.01", "memory": "1MiB", "command": work(then)}
        self.names.append(name)
        while self.record("submit", name, lambda: self.client.submit(body, key=name)).answer is None and not self.done.wait(PAUSE_S):
            pass

    def ask(self, what: str, name: str) -> None:
        self.record(what, name, lambda: self.client.stop(name) if what == "stop" else self.client.session(name))

    def record(self, what: str, name: str, call: Any) -> Said:
        began, answer, status = time.monotonic(), None, None
        ended = float("inf")  # nobody knows when it was heard, if it was
        try:
            answer = call()
            ended = time.monotonic()
        except ServerNotReached:
            self.done.wait(AGAIN_S)
        except Problem as problem:
            status, ended = problem.status, time.monotonic()
        said = Said(what, name, began, ended, answer, status)
        self.history.append(said)
        return said


def faults(history: Iterable[Said], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """What does not fit the model. `rows`: the sessions as they lie in the database at the end, by `id`, `name`, `phase` and `outcome`."""
    told: dict[str, list[Said]] = defaultdict(list)
    for said in history:
        told[said.name].append(said)
    there: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        there[row["name"]].append(row)
    found = [f"{name}: {len(same)} rows" for name, same in there.items() if len(same) > 1]
    for name, calls in told.items():
        found += [f"{name}: {wrong}" for wrong in faults_of(sorted(calls, key=lambda said: said.ended_s), there[name])]
    return found


def faults_of(calls: list[Said], rows: list[Mapping[str, Any]]) -> list[str]:
    acknowledged = [said for said in calls if said.what == "submit" and said.answer is not None]
    answers = [said for said in calls if said.answer is not None]
    found = []
    if acknowledged and not rows:
        found.append("acknowledged, and not in the database")
    if len(ids := {said.answer["id"] for said in answers} | {row["id"] for row in rows}) > 1:
        found.append(f"several sessions answer to it: {sorted(ids)}")
    first_s = min((said.ended_s for said in acknowledged), default=float("inf"))
    found += ["not found after it was acknowledged" for said in calls if said.status == NOT_FOUND and said.began_s > first_s]
    for later in answers:
        # Calls that overlap may be answered in either order.
        before = [said for said in answers if said.ended_s < later.began_s]
        if before and (wrong := backwards(max(before, key=lambda said: said.answer["revision"]).answer, later.answer)):
            found.append(wrong)
    if any(said.what == "stop" and said.answer is not None for said in calls) and [row for row in rows if row["phase"] != "ended"]:
        found.append("its stop was acknowledged, and it never ended")
    return found


def backwards(before: Mapping[str, Any], later: Mapping[str, Any]) -> str:
    if later["revision"] < before["revision"]:
        return f"revision {later['revision']} after {before['revision']}"
    if later["attempt"] < before["attempt"]:
        return f"attempt {later['attempt']} after {before['attempt']}"
    if before["state"] == "ENDED" and any(before[key] != later[key] for key in FINAL):
        return f"ended as {before['outcome']}, and is {later['state']} {later['outcome']} now"
    lower = later["attempt"] == before["attempt"] and RANKS.get(later["state"], 4) < RANKS.get(before["state"], 0)
    return f"{later['state']} after {before['state']}" if lower else ""
