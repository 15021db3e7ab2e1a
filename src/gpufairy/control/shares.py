"""Shares: how each GPU is shared, as the admin said it, and what self-tests found to hold. Written first, then counted on."""
from collections.abc import Iterable, Mapping, Sequence

from gpufairy.core.errors import Conflict, NoSuchThing
from gpufairy.core.names import nearest
from gpufairy.core.node import Node, Sharing
from gpufairy.core.session import Session
from gpufairy.core.sharing import ALL, ALL_OPEN, Closed, IsolationTest, ShareRule, latest, ruled
from gpufairy.store.shares import Shares as StoredShares


class Shares:
    def __init__(self, store: StoredShares) -> None:
        self._store = store
        self._rules: dict[str, ShareRule] = {}
        self._tests: dict[tuple[str, Sharing], IsolationTest] = {}
        self._closed: Mapping[str, Closed] = ALL_OPEN
        self.version = 0  # counts up when any of this changes

    async def load(self) -> None:
        self._rules = {rule.of: rule for rule in await self._store.rules()}
        self._tests = latest(await self._store.tests())
        self.version += 1

    def applied(self, node: Node) -> Node:
        return ruled(node, self._rules, self._tests, self._closed)

    def close(self, closed: Mapping[str, Closed]) -> bool:
        """These GPUs, by UUID, and no others any more. Returns whether that is news: then whoever calls this looks at the nodes again.

        Not kept: after a restart the daemons are looked at anew.
        """
        is_news = dict(closed) != dict(self._closed)
        self._closed = closed
        self.version += is_news
        return is_news

    def rules(self) -> list[ShareRule]:
        """The most general first."""
        return sorted(self._rules.values(), key=lambda rule: (rule.of != ALL, rule.of.startswith("GPU-"), rule.of))

    def tests(self) -> list[IsolationTest]:
        return sorted(self._tests.values(), key=lambda test: (test.node, test.gpu, test.sharing))

    async def set(self, rule: ShareRule, nodes: Sequence[Node], holding: Iterable[Session]) -> None:
        """What the rule leaves open stays as an earlier rule of the same GPUs has it. Whoever calls this looks at the nodes again.

        `nodes`: as the engine tells of them.
        """
        check_named(rule.of, nodes)
        before = self._rules.get(rule.of, ShareRule(rule.of))
        fgpu_parts = before.fgpu_parts if rule.fgpu_parts is None else rule.fgpu_parts
        whole = ShareRule(rule.of, fgpu_parts, before.sharing if rule.sharing is None else rule.sharing)
        rules = {**self._rules, rule.of: whole}
        self._refuse_under_holders(rules, nodes, holding)
        await self._store.set_rule(whole)
        self._rules = rules
        self.version += 1

    async def clear(self, of: str, nodes: Sequence[Node], holding: Iterable[Session]) -> None:
        if of not in self._rules:
            raise NoSuchThing(f"no rule for {of[:60]!r}{nearest(of, self._rules)}", "See `fairy share`.")
        rules = {name: rule for name, rule in self._rules.items() if name != of}
        self._refuse_under_holders(rules, nodes, holding)
        await self._store.remove_rule(of)
        self._rules = rules
        self.version += 1

    def _refuse_under_holders(self, rules: Mapping[str, ShareRule], nodes: Sequence[Node], holding: Iterable[Session]) -> None:
        """One GPU cannot be shared in two ways at once, and what runs on it was given the way it is shared now."""
        now = {gpu.uuid: gpu.sharing for node in nodes for gpu in ruled(node, self._rules, {}).gpus}
        changed = {gpu.uuid for node in nodes for gpu in ruled(node, rules, {}).gpus if gpu.sharing is not now[gpu.uuid]}
        seats = [(session.owner, part.uuid) for session in holding for part in (session.seat.gpus if session.seat else ())]
        held = sorted({owner for owner, uuid in seats if uuid in changed})
        if held:
            found = f"sessions of {', '.join(held[:3])} are on GPUs that this would share in another way"
            raise Conflict(found, "Wait until they have ended, or drain the node: `fairy node drain NODE`.")

    async def tested(self, test: IsolationTest) -> None:
        """Whoever calls this looks at the nodes again: what seats say of themselves follows from it."""
        await self._store.put_test(test)
        self._tests[test.gpu, test.sharing] = test
        self.version += 1


def check_named(of: str, nodes: Sequence[Node]) -> None:
    known = {ALL, *(gpu.kind for node in nodes for gpu in node.gpus), *(gpu.uuid for node in nodes for gpu in node.gpus)}
    if of not in known:
        raise NoSuchThing(f"no GPU here is {of[:60]!r}{nearest(of, known)}", "Name its UUID or kind as `fairy share` has it, or * for all.")
