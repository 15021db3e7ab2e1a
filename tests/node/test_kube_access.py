"""How we prove who we are to an API server: out of a pod's folder, or out of a kubeconfig; and what is wrong with one, in words."""
import base64
import json
import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from gpufairy.core.errors import BadInput
from gpufairy.main.pods import KubernetesWatch, find_access, make_pods
from gpufairy.node.kube_access import by_kubeconfig, in_cluster, is_in_cluster
from kube.certificates import Authority

pytestmark = pytest.mark.slow

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    authority = Authority(tmp_path)
    authority.client("me", "me", "us")
    (tmp_path / "token").write_text("secret\n")
    return tmp_path


def a_kubeconfig(folder: Path, user: dict[str, Any], **cluster: Any) -> Path:
    told = {
        "current-context": "here",
        "contexts": [{"name": "there", "context": {"cluster": "none", "user": "none"}}, {"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://kube.lab:6443/k8s/one/", "certificate-authority": "ca.crt", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }  # fmt: skip
    (folder / "config").write_text(json.dumps(told))
    return folder / "config"


def test_a_pod_finds_all_in_its_own_folder(folder: Path):
    assert is_in_cluster(IN_CLUSTER, folder)
    access = in_cluster(IN_CLUSTER, folder)
    assert (access.host, access.port, access.token) == ("fd00::1", 6443, "secret")
    assert access.tls.verify_mode is ssl.CERT_REQUIRED
    assert "secret" not in repr(access)
    assert not is_in_cluster({}, folder)
    assert not is_in_cluster(IN_CLUSTER, folder / "missing")


def test_a_token_that_was_changed_is_the_new_one(folder: Path):
    (folder / "token").write_text("newer")
    assert in_cluster(IN_CLUSTER, folder).token == "newer"


@pytest.mark.parametrize("user", [{"token": "secret"}, {"tokenFile": "token", "token": "older"}])
def test_a_kubeconfig_has_a_token_or_names_its_file(folder: Path, user: dict[str, str]):
    access = by_kubeconfig(a_kubeconfig(folder, user, **{"tls-server-name": "kubernetes"}))
    assert (access.host, access.port, access.path, access.server_name, access.token) == ("kube.lab", 6443, "/k8s/one", "kubernetes", "secret")


def test_a_kubeconfig_as_people_write_it_is_read(folder: Path):
    (folder / "config").write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters:\n- name: c\n  cluster: {server: 'https://127.0.0.1', certificate-authority: ca.crt}\n"
        "users:\n- name: u\n  user:\n    token: secret\ncontexts:\n- context: {cluster: c, user: u}\n  name: x\n"
    )
    assert by_kubeconfig(folder / "config").port == 443


def test_a_certificate_is_written_out_or_in_files(folder: Path):
    assert by_kubeconfig(a_kubeconfig(folder, {"client-certificate": "me.crt", "client-key": str(folder / "me.key")})).token == ""
    written = {f"client-{part}-data": base64.b64encode((folder / name).read_bytes()).decode() for part, name in (("certificate", "me.crt"), ("key", "me.key"))}
    open_files = len(os.listdir("/proc/self/fd"))
    assert by_kubeconfig(a_kubeconfig(folder, written)).token == ""
    assert len(os.listdir("/proc/self/fd")) == open_files


@pytest.mark.parametrize(
    ("user", "cluster", "words"),
    [
        ({"exec": {"command": "aws"}}, {}, "for people and not run here"),
        ({"auth-provider": {"name": "gcp"}}, {}, "for people and not run here"),
        ({}, {}, "neither a token nor a client certificate"),
        ({"token": "a\r\nb"}, {}, "no single word"),
        ({"tokenFile": "missing"}, {}, "missing cannot be read"),
        ({"tokenFile": "pipe"}, {}, "pipe is no file"),
        ({"tokenFile": "huge"}, {}, "larger than 1 MiB"),
        ({"token": "a"}, {"insecure-skip-tls-verify": True}, "whoever answers"),
        ({"token": "a"}, {"server": "http://kube.lab"}, "must be https"),
        ({"token": "a"}, {"server": "https://kube.lab:port"}, "cannot be understood"),
        ({"token": "a"}, {"certificate-authority": "token"}, "certificate authority cannot be read"),
        ({"token": "a"}, {"certificate-authority-data": "%%"}, "no base64"),
        ({"client-certificate": "me.crt", "client-key": "ca.key"}, {}, "cannot be used"),
        ({"client-certificate": "me.crt"}, {}, "cannot be used"),
    ],
)
def test_what_is_wrong_with_a_kubeconfig_is_told(folder: Path, user: dict[str, Any], cluster: dict[str, Any], words: str):
    os.mkfifo(folder / "pipe")
    (folder / "huge").write_bytes(b"x" * (2 << 20))
    with pytest.raises(BadInput, match=words) as raised:
        by_kubeconfig(a_kubeconfig(folder, user, **cluster))
    assert raised.value.next_step


@pytest.mark.parametrize("text", ["", "- 1", "{", "a: &a [*a]", "current-context: x", "current-context: x\ncontexts: [{name: x}]", "[" * 5000, "\0", "contexts: 5\ncurrent-context: 5"])
def test_what_is_no_kubeconfig_is_told(tmp_path: Path, text: str):
    (tmp_path / "config").write_text(text)
    with pytest.raises(BadInput, match="cannot be understood"):
        by_kubeconfig(tmp_path / "config")


def test_who_is_asked_is_named_or_found(folder: Path):
    config = str(a_kubeconfig(folder, {"token": "secret"}))
    for where, env in ((config, {}), ("auto", {"KUBECONFIG": config}), ("auto", {"KUBECONFIG": f"/missing:{config}"})):
        access = find_access(where, env)
        assert access is not None
        assert access().what == f"kubeconfig {config}"
    assert find_access("auto", {}) is None
    assert make_pods(KubernetesWatch("off"), {"KUBECONFIG": config}) is None
    for where, words in (("on", "found 'on'"), ("/missing/config", "cannot be read")):
        with pytest.raises(BadInput, match=words):
            find_access(where, {})
