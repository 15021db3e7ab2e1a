"""Agents: which hosts may report, and whether a report is theirs: signed by their key, new, and whole."""
import asyncio
import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gpufairy.control.clock import Clock, boot_s
from gpufairy.core.agent import Agent, AgentWaiting, fingerprint, signed_bytes
from gpufairy.core.amounts import shown
from gpufairy.core.errors import Conflict, NoSuchThing, NotAllowed
from gpufairy.core.names import nearest
from gpufairy.store.agents import Agents as StoredAgents

EPOCH_GOOD_S = 60.0  # an agent uses the epoch it is given at once
MOST_WAITING = 256  # anybody may ask; whoever makes room asks again in a few seconds
MOST_OF_ONE_ADDRESS = 64  # so that one host cannot crowd out the others


@dataclass(frozen=True, slots=True)
class Stamp:
    """What comes with a report: which of its sender's it is."""

    epoch: str
    sequence: int
    signature: bytes


@dataclass(slots=True)
class Line:
    """How far an agent has come. Kept in memory: after a restart of the server every agent begins anew."""

    epoch: str
    began_s: float
    sequence: int


class Agents:
    def __init__(self, stored: StoredAgents, clock: Clock, own_nodes: Callable[[], set[str]]) -> None:
        """`own_nodes`: those that the server itself speaks for; no agent may."""
        self._stored, self._clock, self._own_nodes = stored, clock, own_nodes
        self._agents: dict[str, Agent] = {}
        self._waiting: dict[str, AgentWaiting] = {}
        self._lines: dict[str, Line] = {}
        self._secret = secrets.token_bytes(32)  # made anew at each start: no epoch of an earlier one is good, so nothing can be sent again
        self._one_at_a_time = asyncio.Lock()

    async def load(self) -> None:
        self._agents = {agent.name: agent for agent in await self._stored.all()}

    def accepted(self) -> list[Agent]:
        return sorted(self._agents.values(), key=lambda agent: agent.name)

    def waiting(self) -> list[AgentWaiting]:
        return sorted(self._waiting.values(), key=lambda asker: asker.name)

    def hello(self, name: str, key: bytes, address: str) -> str | None:
        """An epoch to report under; or None: an admin has not accepted this key for that host yet."""
        if name in self._own_nodes():
            raise Conflict(f"{name} is the server's own host, which needs no agent", "Give this one another name: fairy agent --name NAME.")
        known = self._agents.get(name)
        if known is not None and hmac.compare_digest(known.key, key):
            return self._epoch(name, boot_s())
        self._waiting.pop(name, None)  # put anew at the end: who asks keeps their place among those remembered
        self._make_room(address)
        self._waiting[name] = AgentWaiting(name, key, address, self._clock(), replaces=known is not None)
        return None

    def _make_room(self, address: str) -> None:
        """The oldest asker goes: of that address, if it has asked too often, else of the one that has most."""
        asked = Counter(asker.address for asker in self._waiting.values())
        crowd = address if asked[address] >= MOST_OF_ONE_ADDRESS else None
        if crowd is None and len(self._waiting) >= MOST_WAITING:
            crowd = asked.most_common(1)[0][0]
        if crowd is not None:
            self._waiting.pop(next(name for name, asker in self._waiting.items() if asker.address == crowd))

    async def accept(self, name: str, wanted: str | None, by: str) -> Agent:
        async with self._one_at_a_time:
            asker = self._waiting.get(name)
            if asker is None:
                found = f"no agent of a host {shown(name)} asks to be let in{nearest(name, self._waiting)}"
                raise NoSuchThing(found, "Start `fairy agent --server URL` there first.")
            if wanted is not None and wanted != fingerprint(asker.key):
                found = f"the agent of {name} has the key {fingerprint(asker.key)}, not {wanted}"
                raise Conflict(found, "Compare it with what the agent printed on that host.")
            agent = Agent(name, asker.key, self._clock(), by)
            await self._stored.put(agent)
            self._agents[name] = agent
            self._waiting.pop(name, None)
            self._lines.pop(name, None)
            return agent

    async def remove(self, name: str) -> None:
        async with self._one_at_a_time:
            if name not in self._agents and name not in self._waiting:
                raise NoSuchThing(f"no agent of a host {shown(name)}{nearest(name, self._agents)}", "See `fairy node list`.")
            await self._stored.remove(name)
            for known in (self._agents, self._waiting, self._lines):
                known.pop(name, None)

    def check(self, name: str, stamp: Stamp, body: bytes) -> None:
        """Raises NotAllowed for what is not that agent's, Conflict for what it must send under a new epoch."""
        agent = self._agents.get(name)
        if agent is None or not _signed_by(agent.key, stamp, name, body):
            raise NotAllowed(f"this report is not signed by the agent of {name[:60]!r}", "Accept its key first: fairy node accept NAME.")
        line = self._lines.get(name)
        if line is None or line.epoch != stamp.epoch:
            line = self._new_line(name, stamp.epoch, line)
        if stamp.sequence <= line.sequence:
            found = f"report {stamp.sequence} of {name} is not newer than {line.sequence}"
            raise NotAllowed(found, "A report counts once; the agent must go on from there.")
        line.sequence = stamp.sequence
        self._lines[name] = line

    def _new_line(self, name: str, epoch: str, before: Line | None) -> Line:
        began_s, now_s = _time_of(epoch), boot_s()
        ours = began_s is not None and hmac.compare_digest(epoch.encode(), self._epoch(name, began_s).encode())
        if began_s is None or not ours or now_s - began_s > EPOCH_GOOD_S or (before is not None and began_s <= before.began_s):
            raise Conflict(f"the agent of {name} must begin anew", "The agent says hello again by itself.")
        return Line(epoch, began_s, 0)

    def _epoch(self, name: str, began_s: float) -> str:
        digest = hmac.digest(self._secret, f"{name}\n{began_s:.6f}".encode(), hashlib.sha256).hex()
        return f"{began_s:.6f}.{digest}"


def _signed_by(key: bytes, stamp: Stamp, name: str, body: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(stamp.signature, signed_bytes(name, stamp.epoch, stamp.sequence, body))
    except InvalidSignature:
        return False
    return True


def _time_of(epoch: str) -> float | None:
    text = epoch.rpartition(".")[0]
    whole, _, part = text.partition(".")
    return float(text) if whole.isdecimal() and part.isdecimal() and len(text) < 32 else None
