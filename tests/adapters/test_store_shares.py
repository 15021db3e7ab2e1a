"""How GPUs are shared, and what self-tests found, in the store."""
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest_asyncio
from store_builders import NOW, a_store

from gpufairy.core.node import Sharing
from gpufairy.core.share import PARTS
from gpufairy.core.sharing import MEMORY, Attempt, IsolationTest, ShareRule, Verdict
from gpufairy.store.store import Store

TEST = IsolationTest("gpu01", "GPU-1", Sharing.MPS, NOW, (Attempt("cuMemAlloc", MEMORY, Verdict.ENFORCED, "20 of 20 GiB"),), "580.159")


@pytest_asyncio.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with a_store(store_url) as opened:
        yield opened


async def test_a_rule_takes_the_place_of_the_one_before_and_can_be_taken_back(store: Store):
    await store.shares.set_rule(ShareRule("*", 2 * PARTS))
    await store.shares.set_rule(ShareRule("*", 5 * PARTS, Sharing.TIME))
    await store.shares.set_rule(ShareRule("GPU-1", None, Sharing.MPS))
    assert await store.shares.rules() == [ShareRule("*", 5 * PARTS, Sharing.TIME), ShareRule("GPU-1", None, Sharing.MPS)]
    await store.shares.remove_rule("*")
    assert [rule.of for rule in await store.shares.rules()] == ["GPU-1"]


async def test_the_last_test_of_a_gpu_in_one_way_of_sharing_is_kept(store: Store):
    later = replace(TEST, at=NOW + timedelta(days=1), attempts=(Attempt("a fork", MEMORY, Verdict.FAILED, "24 of 20 GiB"),), driver=None)
    in_time = replace(TEST, sharing=Sharing.TIME)
    for test in (TEST, later, in_time):
        await store.shares.put_test(test)
    assert sorted(await store.shares.tests(), key=lambda test: test.sharing) == [later, in_time]
