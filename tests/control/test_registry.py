"""The registry under people who do things at the same time."""
import asyncio
from datetime import timedelta

import pytest
from house_scene import a_house

from gpufairy.control.passes import make_pass, read_pass
from gpufairy.core.errors import Conflict, NoSuchThing, NotSignedIn
from gpufairy.core.people import Role


async def test_two_admins_demoted_at_once_leave_one(tmp_path):
    async with a_house(tmp_path) as scene:
        registry = scene.house.registry
        for name in ("ann", "bob"):
            await registry.add_user(name, Role.ADMIN, None)
        done = await asyncio.gather(*(registry.change_user(name, role=Role.USER) for name in ("ann", "bob")), return_exceptions=True)
        assert [type(result) for result in done if isinstance(result, Exception)] == [Conflict]
        assert sum(user.role is Role.ADMIN for user in registry.users()) == 1


async def test_changes_of_different_fields_at_once_both_hold(tmp_path):
    async with a_house(tmp_path) as scene:
        registry = scene.house.registry
        await registry.add_user("ann", Role.USER, None)
        await asyncio.gather(registry.change_user("ann", disabled=True), registry.change_user("ann", team="nlp"))
        assert (registry.user("ann").disabled, registry.user("ann").team) == (True, "nlp")
        await registry.load()
        assert (registry.user("ann").disabled, registry.user("ann").team) == (True, "nlp")


async def test_a_token_revoked_twice_at_once_is_no_fault_of_ours(tmp_path):
    async with a_house(tmp_path) as scene:
        registry = scene.house.registry
        await registry.add_user("ann", Role.USER, None)
        token, text = await registry.create_token("ann", "laptop", "full", None)
        done = await asyncio.gather(*(registry.revoke_token(token.id) for _ in range(2)), return_exceptions=True)
        assert all(result is None or isinstance(result, NoSuchThing) for result in done)
        with pytest.raises(NotSignedIn):
            registry.caller(text)


async def test_an_expired_token_is_out_and_forgotten(tmp_path):
    async with a_house(tmp_path) as scene:
        registry = scene.house.registry
        await registry.add_user("ann", Role.USER, None)
        _, text = await registry.create_token("ann", "short", "full", timedelta(hours=1))
        assert registry.caller(text).user.name == "ann"
        scene.clock.go_on(timedelta(hours=2))
        registry.forget_expired()
        assert registry.tokens("ann") == []
        with pytest.raises(NotSignedIn):
            registry.caller(text)


async def test_a_pass_is_good_for_its_own_attempt_alone(tmp_path):
    async with a_house(tmp_path) as scene:
        await scene.house.registry.add_user("ann", Role.ADMIN, None)
        session = await scene.submit()
        await scene.rest()
        text = make_pass(b"secret", session)
        caller = scene.house.registry.caller(text)
        assert (caller.user.name, caller.is_admin, caller.session_id) == ("ann", False, session.id)
        assert read_pass(b"another", text) is None
        for forged in (text[:-2] + "xx", text.replace(".1.", ".2."), text + ".", "fairyp_..", "fairyp_a.99999999999.b"):
            with pytest.raises(NotSignedIn):
                scene.house.registry.caller(forged)
