"""Ways to a cluster, from files alone: what kubectl would take, and what is said of the rest."""
import base64
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from gpufairy.core.errors import BadInput
from gpufairy.engines.kube.access import Access, load_access

TOKEN = "secret-canary"


def config(path: Path, name: str, *, current: str = "", namespace: str = "", server: str = "", user: dict[str, Any] | None = None, **cluster: Any) -> Path:
    context = {"cluster": name, "user": name, **({"namespace": namespace} if namespace else {})}
    told = {
        "apiVersion": "v1", "kind": "Config", **({"current-context": current} if current else {}),
        "clusters": [{"name": name, "cluster": {"server": server or f"https://{name}.test:6443", **cluster}}],
        "users": [{"name": name, "user": {"token": TOKEN} if user is None else user}], "contexts": [{"name": name, "context": context}],
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told))
    return path


async def token_of(access: Access) -> str:
    return (await access.identity.proof()).headers.get("Authorization", "")


def test_the_current_context_gives_server_and_namespace(tmp_path):
    access = load_access(config(tmp_path / "c", "lab", current="lab", namespace="ml"), None, {})
    assert (access.server, access.namespace) == ("https://lab.test:6443", "ml")
    assert access.words == f"kubeconfig {tmp_path}/c, context lab"


def test_another_context_may_be_named(tmp_path):
    one, two = config(tmp_path / "1", "one", current="one"), config(tmp_path / "2", "two")
    assert load_access(None, "two", {"KUBECONFIG": f"{one}:{two}"}).server == "https://two.test:6443"


def test_of_several_files_the_first_that_names_a_thing_wins_and_missing_ones_are_passed_over(tmp_path):
    first, second = config(tmp_path / "1", "lab", server="https://first.test"), config(tmp_path / "2", "lab", server="https://second.test", current="lab")
    access = load_access(None, None, {"KUBECONFIG": f"{tmp_path}/none:{first}:{second}"})
    assert access.server == "https://first.test"


def test_without_kubeconfig_the_file_in_the_home_is_read(tmp_path):
    config(tmp_path / ".kube" / "config", "home", current="home")
    assert load_access(None, None, {"HOME": str(tmp_path)}).server == "https://home.test:6443"


def test_a_service_account_without_the_clusters_authority_is_not_used(tmp_path):
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "namespace").write_text("fairy\n")
    (tmp_path / "ca.crt").write_text("")
    env = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)}
    with pytest.raises(BadInput, match="certificate authority cannot be read"):
        load_access(None, None, env, tmp_path)
    (tmp_path / "ca.crt").unlink()
    with pytest.raises(BadInput, match=r"ca.crt cannot be read: No such file"):
        load_access(None, None, env, tmp_path)


def test_nothing_to_be_found_is_said_with_where_it_was_looked_for(tmp_path):
    with pytest.raises(BadInput, match=rf"no {tmp_path}/.kube/config, and this is no pod") as told:
        load_access(None, None, {"HOME": str(tmp_path)})
    assert "set KUBECONFIG" in told.value.next_step


def test_paths_in_a_kubeconfig_count_from_its_folder(tmp_path, monkeypatch):
    path = config(tmp_path / "deep" / "c", "lab", current="lab", user={"tokenFile": "token"})
    (tmp_path / "deep" / "token").write_text("from-file")
    monkeypatch.chdir("/")
    assert load_access(path, None, {}).server


async def test_a_token_file_is_read_again_when_it_changes_and_the_old_token_kept_while_it_is_gone(tmp_path, caplog):
    path = config(tmp_path / "c", "lab", current="lab", user={"tokenFile": "token", "token": "older"})
    (tmp_path / "token").write_text("first")
    access = load_access(path, None, {})
    assert await token_of(access) == "Bearer first"
    (tmp_path / "token").unlink()
    with caplog.at_level(logging.WARNING):
        assert await token_of(access) == "Bearer first"
    assert "the one read before is used on" in caplog.text
    (tmp_path / "token").write_text("second one"[:6])
    assert await token_of(access) == "Bearer second"


async def test_no_secret_is_in_what_is_printed_of_it(tmp_path):
    access = load_access(config(tmp_path / "c", "lab", current="lab", **{"proxy-url": f"http://u:{TOKEN}@proxy.test:1"}), None, {})
    assert TOKEN not in repr(access) + repr(await access.identity.proof()) + repr(access.identity)
    assert access.proxy == f"http://u:{TOKEN}@proxy.test:1"


async def test_names_and_passwords_and_impersonation_are_sent_as_kubectl_sends_them(tmp_path):
    access = load_access(config(tmp_path / "c", "lab", current="lab", user={"username": "kim", "password": "pw", "as": "lee"}), None, {})
    headers = (await access.identity.proof()).headers
    assert headers == {"Authorization": "Basic " + base64.b64encode(b"kim:pw").decode(), "Impersonate-User": "lee"}


def test_a_server_that_is_not_verified_is_warned_of_and_named(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        access = load_access(config(tmp_path / "c", "lab", current="lab", **{"insecure-skip-tls-verify": True}), None, {})
    assert "insecure-skip-tls-verify: whoever answers at https://lab.test:6443 is believed" in caplog.text
    assert access.words.endswith("(whose server is not verified)")


@pytest.mark.parametrize(("env", "proxy"), [
    ({"HTTPS_PROXY": "http://p.test:3128"}, "http://p.test:3128"),
    ({"https_proxy": "p.test:3128"}, "http://p.test:3128"),
    ({"HTTP_PROXY": "http://p.test:3128"}, None),
    ({"HTTPS_PROXY": "http://p.test:3128", "NO_PROXY": "other.test, .lab.test"}, None),
    ({"HTTPS_PROXY": "http://p.test:3128", "NO_PROXY": "lab.test:6443"}, None),
    ({"HTTPS_PROXY": "http://p.test:3128", "NO_PROXY": "ab.test"}, "http://p.test:3128"),
    ({"HTTPS_PROXY": "http://p.test:3128", "NO_PROXY": "*"}, None),
])  # fmt: skip
def test_a_proxy_of_the_environment_is_used_as_kubectl_uses_it(tmp_path, env, proxy):
    assert load_access(config(tmp_path / "c", "lab", current="lab", server="https://lab.test:6443"), None, env).proxy == proxy


@pytest.mark.parametrize(("server", "is_direct"), [("https://10.1.2.3:6443", True), ("https://10.9.2.3", False), ("https://[fd00::5]:6443", True), ("https://127.0.0.1:1", True)])
def test_addresses_may_be_kept_from_the_proxy_by_their_range(tmp_path, server, is_direct):
    env = {"HTTPS_PROXY": "http://p.test:1", "NO_PROXY": "10.1.0.0/16,fd00::/8"}
    assert (load_access(config(tmp_path / "c", "lab", current="lab", server=server), None, env).proxy is None) == is_direct


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no server": ({"server": "ftp://x"}, r"its server is 'ftp://x', and must be https://HOST:PORT"),
    "a port that is none": ({"server": "https://x:99999"}, r"must be https://HOST:PORT"),
    "a token in the open": ({"server": "http://lab.test"}, r"is without TLS, and our token would be read on the way"),
    "a proxy for something else": ({"proxy-url": "socks5://u:pw@p.test:1"}, r"its proxy 'p.test:1' is none for HTTP"),
    "no base64": ({"certificate-authority-data": "%%%"}, r"certificate-authority-data is no base64"),
    "no certificate": ({"certificate-authority-data": base64.b64encode(b"x").decode()}, r"its certificate authority cannot be read"),
    "no such file": ({"certificate-authority": "none.crt"}, r"none.crt cannot be read: No such file"),
    "a folder": ({"certificate-authority": "."}, r"is no file|cannot be read"),
    "auth-provider": ({"user": {"auth-provider": {"name": "gcp"}}}, r"auth-provider, which Kubernetes removed in 1.26"),
    "exec of long ago": ({"user": {"exec": {"command": "aws", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}}, r"aws, the program of .* speaks client.authentication.k8s.io/v1alpha1; known are"),
    "exec with a terminal": ({"user": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Always"}}}, r"wants a terminal"),
    "exec of nothing": ({"user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}}, r"its exec names no command"),
    "exec with an odd env": ({"user": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1", "env": ["A=B"]}}}, r"args or env"),
    "a key that is none": ({"user": {"client-certificate-data": base64.b64encode(b"x").decode()}}, r"client certificate and key cannot be used"),
    "a token of two lines": ({"user": {"token": "a\r\nX-Other: b"}}, r"its token is empty or no single word"),
    "a name of two lines": ({"user": {"token": "a", "as": "b\r\nX-Other: c"}}, r"has signs that no header can hold"),
    "an empty token file": ({"user": {"tokenFile": "/dev/null"}}, r"is no file|is empty"),
}


@pytest.mark.parametrize("told", WRONG.values(), ids=WRONG)
def test_what_cannot_be_used_is_said_with_the_kubeconfig_and_the_reason(tmp_path, told):
    fields, words = told
    with pytest.raises(BadInput, match=words) as error:
        load_access(config(tmp_path / "c", "lab", current="lab", **fields), None, {})
    assert str(tmp_path) in str(error.value)
    assert "pw" not in str(error.value)


@pytest.mark.parametrize(("text", "words"), [
    ("{", "is no YAML"), ("- 1", "is no set of fields"), ("contexts: 5", "contexts is no list"), ("contexts: [{name: a, context: 5}]", "is no set of fields"), ("", "has no current context"),
    ("current-context: a", "has no context 'a'"), ("current-context: a\ncontexts: [{name: a, context: {cluster: b}}]", "names cluster 'b', which no file has"), ("&a [*a]", "kubeconfig"),
])  # fmt: skip
def test_a_file_that_is_no_kubeconfig_is_refused_in_words(tmp_path, text, words):
    (tmp_path / "c").write_text(text)
    with pytest.raises(BadInput, match=words):
        load_access(tmp_path / "c", None, {})


def test_a_file_too_large_or_a_pipe_holds_nobody_up(tmp_path):
    (tmp_path / "c").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(BadInput, match="larger than 1 MiB"):
        load_access(tmp_path / "c", None, {})
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="is no file"):
        load_access(tmp_path / "pipe", None, {})
