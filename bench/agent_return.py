"""Hundreds of agents whose server comes back after an outage, for `agents`: each with what it kept, sent at the pace of a real one.

Run as `python -m bench.agent_return URL TOKEN AGENTS KEPT SECONDS`; a line when all were accepted, and one of figures at the end.
"""
import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from bench.agent_crowd import EVERY_S, READY, THEN, CrowdAgent, Line, join_all
from gpufairy.node.pace import Pace
from gpufairy.node.reporter import ANSWER_LIMIT_S


@dataclass(slots=True)
class Recovery:
    delivered: int = 0  # samples
    busy: int = 0  # reports that were to be sent again
    timeouts: int = 0
    recovered_s: float = 0.0  # until the last of them had nothing left of the outage
    left: int = 0  # samples that were not delivered in time


class ReturningAgent(CrowdAgent):
    def __init__(self, url: str, number: int) -> None:
        super().__init__(url, number)
        self._url, self._pace, self._kept, self._told_at = url, Pace(), list[str](), datetime.now(UTC)
        self._text = json.dumps(json.loads(self._body)["samples"][0], separators=(",", ":"))

    async def recover(self, begin_s: float, until_s: float, kept: int, tally: Recovery) -> None:
        now = datetime.now(UTC)
        self._kept = [self._at(now - timedelta(seconds=EVERY_S * (kept - number))) for number in range(kept)]
        await asyncio.sleep(begin_s - time.monotonic())
        self._told_at = now
        first_s = time.monotonic()
        while self._kept and time.monotonic() < until_s:
            went_well = await self._report_late(tally)
            if self._kept:
                await asyncio.sleep(self._pace.wait_s(EVERY_S, went_well=went_well))
        tally.recovered_s = max(tally.recovered_s, time.monotonic() - first_s)
        tally.left += len(self._kept)
        self._line.close()

    async def _report_late(self, tally: Recovery) -> bool:
        now = datetime.now(UTC)
        late, live, self._told_at = self._kept[: self._pace.late], self._at(now, (now - self._told_at).total_seconds()), now
        body = ('{"version":"bench","samples":[' + ",".join([*late, live]) + "]}").encode()
        try:
            status = await asyncio.wait_for(self._send(body), ANSWER_LIMIT_S)
        except TimeoutError:
            tally.timeouts += 1
            self._line.close()
            self._line, status = Line(self._url), 0
        if status == 200:
            self._kept = self._kept[len(late) :]
            self._pace.went_well(more_waits=bool(self._kept))
            tally.delivered += len(late) + 1
            return True
        tally.busy += status == 503
        self._pace.was_too_much()
        self._kept.append(live)
        return False

    def _at(self, moment: datetime, seconds: float = EVERY_S) -> str:
        return self._text.replace(THEN.isoformat(), moment.isoformat()).replace(f'"seconds":{EVERY_S}', f'"seconds":{seconds}')


async def recover_all(url: str, token: str, agents: int, kept: int, lasts_s: float) -> Recovery:
    crowd = [ReturningAgent(url, number) for number in range(agents)]
    await join_all(crowd, token)
    print(READY, flush=True)
    tally, begin_s = Recovery(), time.monotonic() + 1
    turns = (one.recover(begin_s + EVERY_S * number / agents, begin_s + lasts_s, kept, tally) for number, one in enumerate(crowd))
    await asyncio.gather(*turns)
    return tally


if __name__ == "__main__":
    asked = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    print(json.dumps(asdict(asyncio.run(recover_all(*asked)))), flush=True)
