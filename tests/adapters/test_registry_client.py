"""Registries spoken to: a real one, with and without a password, one that sends us for tokens, and ones that are away or lie."""
import contextlib
import gzip
import json
from datetime import UTC, datetime

import pytest
from aiohttp import web
from bench.ports import free_port

from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.engines.registry.blobs import Blob, Repository, digest_of
from gpufairy.engines.registry.build import OCI, NewLayer, in_one, push, read_base
from gpufairy.engines.registry.http import RegistryHttp
from gpufairy.engines.registry.logins import NO_LOGINS, RegistryAccess
from own_registry import PASSWORD, USER, logins_file, own_registry, put_image

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BASE, MORE = b"base layer" * 1000, b"more layer" * 1000


@pytest.fixture(scope="module")
def registry():
    with own_registry() as made:
        yield made


@contextlib.asynccontextmanager
async def repository(host, name, access=NO_LOGINS):
    http = RegistryHttp(access)
    try:
        yield Repository(http, host, name)
    finally:
        await http.close()


def a_layer(text=MORE):
    packed = gzip.compress(text, mtime=0)
    return NewLayer(Blob(digest_of(packed), len(packed)), digest_of(text), lambda: in_one(packed))


@pytest.mark.system
async def test_an_image_is_made_of_another_and_a_layer(registry):
    async with repository(registry.host, "lab/base") as source:
        await put_image(source, "1", BASE)
        base = await read_base(source, "1", "amd64")
        target = Repository(source.http, registry.host, "fairy/kim/tools")
        pushed = await push(base, a_layer(), target, "1", NOW)
        made = await read_base(target, "1", "amd64")
        assert made.config["config"] == base.config["config"]
        assert made.config["rootfs"]["diff_ids"] == [digest_of(BASE), digest_of(MORE)]
        assert made.config["history"] == [{"created_by": "tests"}, {"created": "2026-01-02T03:04:05.000000Z", "created_by": "fairy commit"}]
        assert await target.has_manifest(pushed.digest)
        assert [gzip.decompress(await target.read(layer.digest)) for layer in made.layers] == [BASE, MORE]
        assert pushed.size_bytes == sum(layer.size_bytes for layer in made.layers)


@pytest.mark.system
async def test_layers_come_over_from_another_registry(registry):
    with own_registry() as other:
        async with repository(other.host, "lab/base") as source:
            await put_image(source, "1", BASE)
            target = Repository(source.http, registry.host, "fairy/kim/copied")
            await push(await read_base(source, "1", "amd64"), a_layer(), target, "1", NOW)
            made = await read_base(target, "1", "amd64")
            assert gzip.decompress(await target.read(made.layers[0].digest)) == BASE


@pytest.mark.system
async def test_the_one_for_this_machine_is_taken_of_an_index(registry):
    async with repository(registry.host, "lab/many") as source:
        digest = await put_image(source, "amd", BASE)
        size = len((await source.manifest(digest))[0])
        kind = "application/vnd.oci.image.index.v1+json"
        entry = {"mediaType": OCI, "digest": digest, "size": size, "platform": {"os": "linux", "architecture": "amd64"}}
        index = json.dumps({"schemaVersion": 2, "mediaType": kind, "manifests": [entry]}).encode()
        await source.put_manifest("all", index, kind)
        assert (await read_base(source, "all", "amd64")).layers == (await read_base(source, "amd", "amd64")).layers
        with pytest.raises(EngineRefused, match="not there for linux/arm64"):
            await read_base(source, "all", "arm64")


@pytest.mark.system
async def test_what_is_not_there_is_none_and_deleting_it_is_fine(registry):
    async with repository(registry.host, "lab/nothing") as source:
        assert await read_base(source, "1", "amd64") is None
        assert await source.tags() == []
        await source.delete(digest_of(b"nothing"))


@pytest.mark.system
async def test_what_is_deleted_is_gone(registry):
    async with repository(registry.host, "lab/gone") as source:
        digest = await put_image(source, "1", BASE)
        assert await source.tags() == ["1"]
        await source.delete(digest)
        assert not await source.has_manifest("1")


@pytest.mark.system
async def test_a_registry_that_deletes_nothing_says_what_to_do():
    with own_registry(deletes=False) as registry:
        async with repository(registry.host, "lab/stays") as source:
            digest = await put_image(source, "1", BASE)
            with pytest.raises(EngineRefused, match="deletes nothing") as refused:
                await source.delete(digest)
            assert "DELETE_ENABLED" in refused.value.next_step


@pytest.mark.system
async def test_a_password_opens_it_and_a_wrong_one_is_told_without_being_shown(tmp_path):
    with own_registry(password=True) as registry:
        async with repository(registry.host, "lab/secret", RegistryAccess(logins_file(tmp_path, registry.host))) as source:
            await put_image(source, "1", BASE)
            assert await read_base(source, "1", "amd64") is not None
        wrong = RegistryAccess(logins_file(tmp_path, registry.host, password="canary-wrong"))
        for access in (wrong, NO_LOGINS):
            async with repository(registry.host, "lab/secret", access) as source:
                with pytest.raises(EngineRefused, match="does not let us do this to lab/secret") as refused:
                    await read_base(source, "1", "amd64")
                assert "canary" not in f"{refused.value}{refused.value.next_step}{access!r}"
                assert "registry_logins" in refused.value.next_step


async def test_a_registry_that_is_away_is_silence_not_a_no():
    async with repository(f"127.0.0.1:{free_port()}", "lab/base") as source:
        with pytest.raises(EngineSilent, match="does not answer"):
            await read_base(source, "1", "amd64")


@contextlib.asynccontextmanager
async def serving(*routes):
    """Its host and port."""
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    finally:
        await runner.cleanup()


async def test_tokens_are_fetched_where_the_registry_says_and_used_for_their_scope_alone(tmp_path):
    asked = []

    async def manifest(request):
        scope = f"repository:{request.match_info['name']}:pull"
        if request.headers.get("Authorization") != f"Bearer for-{scope}":
            told = f'Bearer realm="http://{request.host}/token",service="tests",scope="{scope}"'
            return web.json_response({"errors": []}, status=401, headers={"WWW-Authenticate": told})
        return web.json_response({}, status=404)

    async def token(request):
        asked.append((request.query["scope"], request.headers.get("Authorization")))
        return web.json_response({"token": f"for-{request.query['scope']}", "expires_in": 300})

    async with serving(web.get("/v2/{name:.+}/manifests/1", manifest), web.get("/token", token)) as host:
        access = RegistryAccess(logins_file(tmp_path, host))
        async with repository(host, "lab/a", access) as first:
            for source in (first, first, Repository(first.http, host, "lab/b")):
                assert await source.manifest("1") is None
            assert [scope for scope, _ in asked] == ["repository:lab/a:pull", "repository:lab/b:pull"]
            assert {proof for _, proof in asked} == {access.login(host).basic}


async def test_a_password_is_sent_nowhere_but_where_it_belongs(tmp_path):
    seen = []

    async def blob(request):
        raise web.HTTPTemporaryRedirect(f"http://{elsewhere}/blob")

    async def told_elsewhere(request):
        seen.append(request.headers.get("Authorization"))
        return web.Response(body=b"content")

    async with (
        serving(web.get("/blob", told_elsewhere)) as elsewhere,
        serving(web.get("/v2/lab/a/blobs/{digest}", blob)) as host,
        repository(host, "lab/a", RegistryAccess(logins_file(tmp_path, host))) as source,
    ):
        source.http._proving().heard(host, 'Basic realm="tests"')
        assert await source.read(digest_of(b"content")) == b"content"
        assert seen == [None]
        assert RegistryAccess(logins_file(tmp_path, host)).login("other.lab") is None


async def test_what_is_not_what_its_digest_stands_for_is_refused():
    async def blob(request):
        return web.Response(body=b"something else")

    async with serving(web.get("/v2/lab/a/blobs/{digest}", blob)) as host, repository(host, "lab/a") as source:
        with pytest.raises(EngineRefused, match="is not what sha256:"):
            await source.read(digest_of(b"content"))


@pytest.mark.parametrize("text", ["[]", "{", '{"layers": 1}', '{"config": "x"}', '{"config": {"digest": "../../x", "size": 1}}', '{"layers": [{}]}'])
async def test_a_manifest_of_nonsense_is_a_sentence(text):
    async def manifest(request):
        return web.Response(text=text, content_type=OCI)

    async with serving(web.get("/v2/lab/a/manifests/1", manifest)) as host, repository(host, "lab/a") as source:
        with pytest.raises(EngineRefused):
            await read_base(source, "1", "amd64")


async def test_a_manifest_without_an_end_is_not_read_to_it():
    async def manifest(request):
        answer = web.StreamResponse(headers={"Content-Type": OCI})
        await answer.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await answer.write(bytes(2**20))
        return answer

    async with serving(web.get("/v2/lab/a/manifests/1", manifest)) as host, repository(host, "lab/a") as source:
        with pytest.raises(EngineRefused, match="longer than"):
            await source.manifest("1")


async def test_a_registry_that_can_do_no_more_is_asked_again_later():
    async def manifest(request):
        return web.json_response({"errors": [{"code": "TOOMANYREQUESTS", "message": "slow down"}]}, status=429)

    async with serving(web.get("/v2/lab/a/manifests/1", manifest)) as host, repository(host, "lab/a") as source:
        with pytest.raises(EngineSilent, match="TOOMANYREQUESTS slow down"):
            await source.manifest("1")


def test_logins_are_as_docker_writes_them(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"auths": {"https://index.docker.io/v1/": {"auth": "a2ltOnM6ZWNyZXQ="}, "r.lab": {"username": USER, "password": PASSWORD}}}))
    access = RegistryAccess(path)
    assert access.login("docker.io").basic == "Basic a2ltOnM6ZWNyZXQ="
    assert access.login("r.lab").user == USER
    assert PASSWORD not in repr(access.login("r.lab"))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"auths": {"r.lab": {"auth": "%%%"}}}', '{"auths": {"r.lab": {"username": "x"}}}'])
def test_a_file_of_logins_that_cannot_be_read_is_named(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(EngineRefused, match=r"config\.json"):
        RegistryAccess(path).login("r.lab")


def test_addresses_are_by_tls_but_on_loopback_or_when_told():
    access = RegistryAccess(plain_http=("registry.lab:5000",))
    found = [access.address(host) for host in ("docker.io", "ghcr.io", "registry.lab:5000", "127.0.0.1:5000", "localhost")]
    assert found == ["https://registry-1.docker.io", "https://ghcr.io", "http://registry.lab:5000", "http://127.0.0.1:5000", "http://localhost"]
