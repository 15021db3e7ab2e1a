"""Users, tokens, keys, drained nodes and single values in the store."""
import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
import pytest_asyncio
from store_builders import NOW, a_store

from gpufairy.core.errors import BadInput, Conflict, NoSuchThing
from gpufairy.core.people import Key, Role, Token, User
from gpufairy.store.store import Store

MINA = User("mina", Role.USER, NOW, team="nlp")
TOKEN = Token("t1", "mina", "laptop", "hash1", "all", NOW, expires_at=NOW + timedelta(days=1))
KEY = Key("SHA256:abc", "mina", "ssh-ed25519 AAAA", "mina@laptop", NOW)


@pytest_asyncio.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with a_store(store_url) as opened:
        await opened.people.add_user(MINA)
        yield opened


async def test_a_user_comes_back_as_added_and_only_once(store: Store):
    assert await store.people.users() == [MINA]
    with pytest.raises(Conflict, match="mina"):
        await store.people.add_user(MINA)
    await store.people.add_user(User("jun", Role.ADMIN, NOW, disabled=True))
    assert [user.name for user in await store.people.users()] == ["jun", "mina"]


async def test_changing_a_user_leaves_the_rest_as_it_was(store: Store):
    assert await store.people.change_user("mina", role=Role.ADMIN) == replace(MINA, role=Role.ADMIN)
    assert await store.people.change_user("mina", disabled=True) == replace(MINA, role=Role.ADMIN, disabled=True)
    assert (await store.people.change_user("mina", disabled=False, team="")).team is None
    assert [await store.people.change_user("mina")] == await store.people.users()
    with pytest.raises(NoSuchThing, match="ghost"):
        await store.people.change_user("ghost", disabled=True)


async def test_a_token_is_found_by_its_hash_until_and_after_it_is_revoked(store: Store):
    await store.people.add_token(TOKEN)
    assert await store.people.all_tokens() == [TOKEN]
    await store.people.revoke_token("t1", NOW)
    await store.people.revoke_token("t1", NOW + timedelta(hours=1))
    assert await store.people.all_tokens() == [replace(TOKEN, revoked_at=NOW)]
    with pytest.raises(NoSuchThing, match="t2"):
        await store.people.revoke_token("t2", NOW)


async def test_tokens_and_keys_of_nobody_are_refused(store: Store):
    with pytest.raises(NoSuchThing, match="ghost"):
        await store.people.add_token(replace(TOKEN, user="ghost"))
    with pytest.raises(NoSuchThing, match="ghost"):
        await store.people.add_key(replace(KEY, user="ghost"))


async def test_a_key_names_one_user(store: Store):
    await store.people.add_user(User("jun", Role.USER, NOW))
    await store.people.add_key(KEY)
    with pytest.raises(Conflict, match="SHA256:abc"):
        await store.people.add_key(replace(KEY, user="jun"))
    assert await store.people.all_keys() == [KEY]
    with pytest.raises(NoSuchThing):
        await store.people.remove_key("jun", KEY.fingerprint)
    await store.people.remove_key("mina", KEY.fingerprint)
    assert await store.people.all_keys() == []


async def test_a_drained_node_says_why_until_it_is_used_again(store: Store):
    await store.nodes.set_drained("gpu01", "new disk")
    await store.nodes.set_drained("gpu01", "newer disk")
    await store.nodes.set_drained("gpu02", "moved")
    await store.nodes.set_drained("gpu02", None)
    assert await store.nodes.drained() == {"gpu01": "newer disk"}


async def test_of_many_who_put_a_value_at_once_the_first_wins_for_all(store: Store):
    assert await store.meta.get("key") is None
    answers = await asyncio.gather(*(store.meta.put_once("key", f"value{i}") for i in range(20)))
    assert set(answers) == {await store.meta.get("key")}


@pytest.mark.system
async def test_what_only_one_database_cannot_hold_is_bad_input_there(postgres_url: str):
    async with a_store(postgres_url) as store:
        with pytest.raises(BadInput, match="cannot hold"):
            await store.meta.put_once("nul", "a\0b")
