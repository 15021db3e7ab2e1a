"""Signing in by OpenID Connect, against a provider of our own: what it says is believed only if all of it is right."""
import base64
import json
from dataclasses import replace

import pytest
from admin_browser import AnyBrowser, as_user, cookies_of
from house_scene import a_house
from joserfc.jwk import OctKey, RSAKey
from oidc_provider import CLIENT, SECRET, Provider
from session_browser import URL

from gpufairy.core.errors import BadInput, Busy, NotAllowed, NotSignedIn
from gpufairy.core.people import Role
from gpufairy.web.oidc import KEYS_AGAIN_AFTER, Oidc
from gpufairy.wire.config import Config
from gpufairy.wire.oidc import OidcSettings

pytestmark = pytest.mark.slow


@pytest.fixture
async def provider():
    async with Provider() as found:
        yield found


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as found:
        await found.house.registry.ensure_user("kim")
        yield found


def settings(provider, **fields):
    return replace(OidcSettings(provider.url, CLIENT, SECRET, "Lab SSO"), **fields)


def an_oidc(scene, provider, **fields):
    return Oidc(settings(provider, **fields), URL, scene.house.clock)


async def signed_in_as(oidc, provider):
    begun = await oidc.begin()
    code, state = provider.visited(begun.url)
    return await oidc.finish(code=code, state=state, of_browser=begun.state)


async def test_a_browser_is_sent_there_and_comes_back_signed_in(scene, provider):
    stranger = AnyBrowser(scene, oidc=an_oidc(scene, provider))
    assert "Sign in with Lab SSO" in (await stranger.get("/signin")).text
    sent = await stranger.get("/signin/oidc")
    assert (sent.status, sent.headers["location"].startswith(f"{provider.url}/authorize?")) == (303, True)
    code, state = provider.visited(sent.headers["location"])
    bound = cookies_of(sent)["fairy_oidc"]
    alien = await stranger.get(f"/signin/oidc/back?code={code}&state={state}", cookie="fairy_oidc=another")
    assert (alien.status, "belongs to no sign-in that this browser has begun" in alien.text) == (401, True)
    sent = await stranger.get("/signin/oidc")
    code, state = provider.visited(sent.headers["location"])
    bound = cookies_of(sent)["fairy_oidc"]
    oidc = await stranger.get(f"/signin/oidc/back?code={code}&state={state}", cookie=f"fairy_oidc={bound}")
    assert (oidc.status, oidc.headers["location"]) == (303, "/")
    again = await stranger.get(f"/signin/oidc/back?code={code}&state={state}", cookie=f"fairy_oidc={bound}")
    assert again.status == 401  # once
    assert [token.label for token in scene.house.registry.tokens("kim")] == ["browser"]


async def test_who_is_no_user_is_told_so_unless_all_are_let_in(scene, provider):
    provider.claims = {"preferred_username": "lee"}

    async def come_back(**fields):
        stranger = AnyBrowser(scene, oidc=an_oidc(scene, provider, **fields))
        sent = await stranger.get("/signin/oidc")
        code, state = provider.visited(sent.headers["location"])
        return await stranger.get(f"/signin/oidc/back?code={code}&state={state}", cookie=f"fairy_oidc={cookies_of(sent)['fairy_oidc']}")

    refused = await come_back()
    assert (refused.status, "there is no user lee here" in refused.text) == (403, True)
    assert (await come_back(add_users=True)).status == 303
    assert scene.house.registry.user("lee").role is Role.USER
    await scene.house.registry.change_user("lee", disabled=True)
    assert (await come_back(add_users=True)).status == 403


@pytest.mark.parametrize(
    "lie",
    [
        {"iss": "https://evil.example"}, {"aud": "another"}, {"aud": ["gpufairy", "another"]}, {"nonce": "another"}, {"nonce": None},
        {"exp": 1_700_000_000}, {"exp": None}, {"aud": ["gpufairy", "another"], "azp": "another"},
    ],
)  # fmt: skip
async def test_a_token_that_is_not_for_us_now_is_not_believed(scene, provider, lie):
    provider.claims |= lie
    with pytest.raises(NotSignedIn):
        await signed_in_as(an_oidc(scene, provider), provider)


async def test_a_signature_by_another_key_or_by_our_own_secret_is_none(scene, provider):
    provider.signs_with = RSAKey.generate_key(2048, {"kid": "one"})
    with pytest.raises(NotSignedIn, match="cannot be believed"):
        await signed_in_as(an_oidc(scene, provider), provider)
    provider.algorithm, provider.signs_with = "HS256", OctKey.import_key(SECRET)
    with pytest.raises(NotSignedIn, match="cannot be believed"):
        await signed_in_as(an_oidc(scene, provider), provider)


async def test_an_unsigned_token_is_not_believed(scene, provider):
    oidc = an_oidc(scene, provider)
    head, claims = ({"alg": "none"}, {"iss": provider.url, "aud": CLIENT, "exp": 2_000_000_000, "nonce": "n", "preferred_username": "kim"})
    token = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (head, claims)) + "."
    with pytest.raises(NotSignedIn):
        await oidc._claims(token, "n")


async def test_a_key_that_is_new_is_asked_for_and_a_stranger_cannot_make_us_ask_all_the_time(scene, provider):
    oidc = an_oidc(scene, provider)
    assert await signed_in_as(oidc, provider) == "kim"
    provider.key = RSAKey.generate_key(2048, {"kid": "three", "use": "sig"})
    with pytest.raises(NotSignedIn):  # within a minute of the last look
        await signed_in_as(oidc, provider)
    assert provider.key_calls == 1
    scene.clock.go_on(KEYS_AGAIN_AFTER)
    assert await signed_in_as(oidc, provider) == "kim"
    assert provider.key_calls == 2


async def test_only_members_of_allowed_groups_come_in(scene, provider):
    with pytest.raises(NotAllowed, match="none of the groups"):
        await signed_in_as(an_oidc(scene, provider, allowed_groups=("gpu",)), provider)
    provider.claims["groups"] = ["gpu", "staff"]
    assert await signed_in_as(an_oidc(scene, provider, allowed_groups=("gpu",)), provider) == "kim"


async def test_a_name_is_taken_from_our_own_domain_and_a_verified_address_alone(scene, provider):
    provider.claims = {"email": "kim@lab.example", "email_verified": True}
    asked = {"user_claim": "email", "user_domain": "lab.example"}
    assert await signed_in_as(an_oidc(scene, provider, **asked), provider) == "kim"
    for wrong in ({"email": "kim@evil.example"}, {"email": "kim@evil-lab.example"}, {"email_verified": False}, {"email": None}):
        provider.claims = {"email": "kim@lab.example", "email_verified": True, **wrong}
        with pytest.raises(NotAllowed):
            await signed_in_as(an_oidc(scene, provider, **asked), provider)


async def test_a_provider_that_is_away_or_another_is_told_in_words(scene, provider):
    with pytest.raises(Busy, match="gave no answer"):
        await Oidc(settings(provider, issuer="http://127.0.0.1:9"), URL, scene.house.clock).begin()
    provider.discovery = {"issuer": "https://evil.example"}
    with pytest.raises(NotSignedIn, match="calls itself"):
        await an_oidc(scene, provider).begin()
    provider.discovery = {"token_endpoint": "http://evil.example/token"}
    with pytest.raises(NotSignedIn, match="not by https"):
        await an_oidc(scene, provider).begin()
    provider.discovery = {}
    oidc = an_oidc(scene, provider)
    state = (await oidc.begin()).state
    with pytest.raises(NotSignedIn, match="access_denied"):
        await oidc.finish(code="", state=state, of_browser=state, error="access_denied")


async def test_a_provider_that_wants_the_secret_in_the_body_gets_it_there(scene, provider):
    provider.discovery = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert await signed_in_as(an_oidc(scene, provider), provider) == "kim"


async def test_where_it_is_not_set_there_is_no_such_way(scene):
    page = await (await as_user(scene)).get("/signin/oidc")
    assert (page.status, "nobody signs in by OpenID Connect here" in page.text) == (404, True)


def test_settings_are_whole_by_https_and_the_secret_is_in_a_file(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    whole = {"issuer": "https://sso.example", "client_id": "fairy", "client_secret_file": str(secret)}
    assert Config.model_validate({"oidc": whole}).oidc.to_settings().client_secret == "hush"
    assert Config().oidc.to_settings() is None
    for wrong in ({"issuer": "http://sso.example"}, {"client_id": None}, {"client_secret_file": str(tmp_path / "none")}):
        with pytest.raises(BadInput):
            Config.model_validate({"oidc": {**whole, **wrong}}).oidc.to_settings()
