"""A property: however two servers' loops read and save, nobody overwrites what they have not seen."""
import asyncio
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_builders import a_session, a_store, noted

pytestmark = pytest.mark.slow

moves = st.lists(st.tuples(st.sampled_from(["read", "save", "save_both"]), st.integers(0, 1), st.integers(0, 2)), max_size=25)


@given(moves)
@settings(max_examples=25, deadline=None)
def test_a_save_takes_exactly_when_nobody_was_faster(series: list[tuple[str, int, int]]):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(f"sqlite:///{folder}/fairy.db", series))


async def play(url: str, series: list[tuple[str, int, int]]) -> None:
    async with a_store(url) as store:
        truth = {session.id: session for session in await store.sessions.add([a_session(f"s{i}") for i in range(3)], [])}
        seen = [dict(truth), dict(truth)]
        for turn, (move, who, which) in enumerate(series):
            key = f"mina-s{which}"
            if move == "read":
                seen[who][key] = await store.sessions.get(key)
                continue
            before = [seen[who][key], *([seen[1 - who][key]] if move == "save_both" else [])]
            changes = [noted(session, f"turn {turn} try {number}") for number, session in enumerate(before)]
            took = [taken for some in await asyncio.gather(*(store.sessions.save([change]) for change in changes)) for taken in some]
            expected = [change for change in changes if change.before.revision == truth[key].revision][:1]
            assert took == expected
            for change in took:
                truth[key] = seen[who][key] = change.after
        assert {session.id: session for session in await store.sessions.live()} == truth
