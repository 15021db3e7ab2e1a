"""The registry alone: whose token is good, until when and for what; and that there is always an admin."""

from datetime import timedelta

import pytest
from house_scene import a_house

from gpufairy.control.passes import make_gateway_pass, make_pass
from gpufairy.control.registry import GATEWAY_SCOPE
from gpufairy.core.errors import BadInput, Conflict, NoSuchThing, NotSignedIn
from gpufairy.core.people import Role

HOUR = timedelta(hours=1)


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as made:
        await made.house.registry.add_user("ann", Role.USER, None)
        await made.house.registry.add_user("kim", Role.ADMIN, "nlp")
        yield made


@pytest.fixture
def registry(scene):
    return scene.house.registry


@pytest.fixture
def changes(registry):
    told = []
    registry.on_change = lambda: told.append(1)
    return told


async def test_a_token_is_its_users_with_its_scope(registry):
    token, text = await registry.create_token("kim", "laptop", "metrics", None)
    caller = registry.caller(text)
    assert (len(token.id), text[:6], len(text)) == (12, "fairy_", 49), (
        "an id to be typed, and a secret not to be guessed"
    )
    assert (caller.user.name, caller.scope, caller.token_id, caller.session_id) == (
        "kim",
        "metrics",
        token.id,
        None,
    )


@pytest.mark.parametrize("text", ["", "fairy_", "fairy_wrong", "fairyg_wrong", "fairyp_x.1.y"])
async def test_what_is_no_token_is_nobodys(registry, text):
    with pytest.raises(NotSignedIn, match="this token is not known, has expired or was revoked"):
        registry.caller(text)


async def test_a_token_is_good_until_the_very_moment_it_expires(scene, registry):
    token, text = await registry.create_token("ann", "short", "full", HOUR)
    scene.clock.go_on(HOUR - timedelta(seconds=1))
    assert registry.caller(text).user.name == "ann"
    assert registry.good_tokens() == {token.id}
    scene.clock.go_on(timedelta(seconds=1))
    with pytest.raises(NotSignedIn):
        registry.caller(text)
    assert registry.good_tokens() == set()
    registry.forget_expired()
    assert registry.tokens("ann") == []


async def test_a_token_without_an_end_outlasts_years_and_a_tidying_up(scene, registry):
    token, text = await registry.create_token("ann", "server", "full", None)
    scene.clock.go_on(10_000 * HOUR)
    registry.forget_expired()
    assert registry.caller(text).token_id == token.id
    assert registry.good_tokens() == {token.id}


async def test_a_token_that_has_not_expired_yet_is_not_forgotten(scene, registry):
    _, text = await registry.create_token("ann", "short", "full", HOUR)
    registry.forget_expired()
    assert registry.caller(text).user.name == "ann"


async def test_a_revoked_token_is_out_at_once_and_after_a_restart(registry, changes):
    token, text = await registry.create_token("ann", "laptop", "full", None)
    _, other = await registry.create_token("ann", "desk", "full", None)
    await registry.revoke_token(token.id)
    assert len(changes) == 1
    for _ in range(2):
        with pytest.raises(NotSignedIn):
            registry.caller(text)
        assert registry.caller(other).user.name == "ann"
        assert [one.label for one in registry.tokens("ann")] == ["desk"]
        assert len(registry.good_tokens()) == 1
        with pytest.raises(NoSuchThing):
            registry.token(token.id)
        await registry.load()


async def test_tokens_are_listed_for_their_own_user_alone(registry):
    await registry.create_token("ann", "laptop", "full", None)
    assert (len(registry.tokens("ann")), registry.tokens("kim")) == (1, [])


async def test_a_disabled_user_is_out_with_every_token_and_back_when_enabled(registry, changes):
    _, text = await registry.create_token("ann", "laptop", "full", None)
    await registry.change_user("ann", disabled=True)
    with pytest.raises(NotSignedIn):
        registry.caller(text)
    await registry.change_user("ann", disabled=False)
    assert registry.caller(text).user.name == "ann"
    assert len(changes) == 2


@pytest.mark.parametrize("scope", ["", "admin", "session", "gateway", "FULL"])
async def test_a_token_is_made_for_known_scopes_alone(registry, scope):
    with pytest.raises(BadInput, match="scope"):
        await registry.create_token("ann", "x", scope, None)


@pytest.mark.parametrize("scope", ["full", "metrics", "page"])
async def test_a_token_can_be_made_for(registry, scope):
    assert (await registry.create_token("ann", "x", scope, None))[0].scope == scope


async def test_the_gateways_pass_is_the_gateways_and_nobodys_else(registry):
    caller = registry.caller(make_gateway_pass(b"secret"))
    assert (caller.scope, caller.is_admin, caller.user.role) == (GATEWAY_SCOPE, False, Role.USER)
    with pytest.raises(NotSignedIn):
        registry.caller(make_gateway_pass(b"another"))


async def test_a_pass_ends_with_its_session(scene, registry):
    session = await scene.submit()
    await scene.rest()
    text = make_pass(b"secret", session)
    assert registry.caller(text).scope == "session"
    await scene.stop(session)
    await scene.later(HOUR)
    with pytest.raises(NotSignedIn):
        registry.caller(text)


async def test_the_only_admin_can_neither_be_demoted_nor_disabled(registry):
    for change in ({"role": Role.USER}, {"disabled": True}):
        with pytest.raises(Conflict, match="kim is the only admin"):
            await registry.change_user("kim", **change)
    assert registry.user("kim").role is Role.ADMIN


async def test_a_disabled_admin_is_not_the_one_who_is_left(registry):
    await registry.add_user("lee", Role.ADMIN, None)
    await registry.change_user("lee", disabled=True)
    with pytest.raises(Conflict):
        await registry.change_user("kim", role=Role.USER)


async def test_an_admin_may_be_demoted_while_another_is_there(registry):
    await registry.add_user("lee", Role.ADMIN, None)
    assert (await registry.change_user("kim", role=Role.USER)).role is Role.USER


async def test_other_changes_of_the_only_admin_are_none_of_that(registry):
    assert (await registry.change_user("kim", team="")).team is None
    assert (await registry.change_user("kim", share=2.0)).share == 2.0


async def test_what_is_not_given_stays_as_it_is_also_in_the_store(registry):
    await registry.change_user("ann", team="nlp", share=3.0)
    await registry.change_user("ann", disabled=True)
    for _ in range(2):
        ann = registry.user("ann")
        assert (ann.role, ann.disabled, ann.team, ann.share) == (Role.USER, True, "nlp", 3.0)
        await registry.load()
    assert registry.user_shares() == {"ann": 3.0}


async def test_whoever_starts_a_new_server_becomes_its_admin(registry):
    assert (await registry.ensure_admin("new")).role is Role.ADMIN


async def test_whoever_starts_it_again_becomes_admin_only_if_nobody_is(tmp_path):
    async with a_house(tmp_path) as scene:
        registry = scene.house.registry
        await registry.add_user("ann", Role.USER, None)
        assert (await registry.ensure_admin("ann")).role is Role.ADMIN
        await registry.add_user("bob", Role.USER, None)
        assert (await registry.ensure_admin("bob")).role is Role.USER


async def test_one_who_comes_by_another_sign_in_is_a_user_and_added_once(registry, changes):
    first, second = await registry.ensure_user("new"), await registry.ensure_user("new")
    assert (first, first.role, len(changes)) == (second, Role.USER, 1)
    assert (await registry.ensure_user("kim")).role is Role.ADMIN


async def test_a_name_is_given_once_and_each_has_a_uid_of_their_own(registry):
    with pytest.raises(Conflict, match="there is a user 'ann' already"):
        await registry.add_user("ann", Role.ADMIN, None)
    assert registry.user("ann").uid != registry.user("kim").uid
    assert [user.name for user in registry.users()] == ["ann", "kim"]


async def test_a_user_who_is_not_known_is_refused_by_name(registry):
    with pytest.raises(NoSuchThing, match="no user 'an'"):
        registry.user("an")


async def test_a_pass_of_a_session_whose_owner_is_not_known_is_nobodys(tmp_path):
    async with a_house(tmp_path) as made:
        session = await made.submit()
        await made.rest()
        with pytest.raises(NotSignedIn):
            made.house.registry.caller(make_pass(b"secret", session))
