"""Names of images taken apart, as container runtimes take them."""
import pytest

from gpufairy.core.image_reference import Reference, full_name, reference_of

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(("name", "found"), [
    ("ubuntu", Reference("docker.io", "library/ubuntu")),
    ("ubuntu:24.04", Reference("docker.io", "library/ubuntu", "24.04")),
    ("kim/tools:1", Reference("docker.io", "kim/tools", "1")),
    ("localhost/a:1", Reference("localhost", "a", "1")),
    ("registry.lab:5000/fairy/kim/tools", Reference("registry.lab:5000", "fairy/kim/tools")),
    (f"registry.lab:5000/fairy/kim/tools:1@{DIGEST}", Reference("registry.lab:5000", "fairy/kim/tools", "1", DIGEST)),
    (f"ghcr.io/lab/a@{DIGEST}", Reference("ghcr.io", "lab/a", "", DIGEST)),
])  # fmt: skip
def test_a_name_is_a_host_a_repository_and_a_version(name, found):
    assert reference_of(name) == found


def test_a_full_name_says_which_registry_and_which_tag_are_meant():
    assert [full_name(name) for name in ("ubuntu", "docker.io/library/ubuntu:latest", "kim/a:1", "r.lab/a")] == [
        "docker.io/library/ubuntu:latest", "docker.io/library/ubuntu:latest", "docker.io/kim/a:1", "r.lab/a:latest",
    ]  # fmt: skip


def test_a_digest_goes_before_a_tag():
    assert reference_of(f"r.lab/a:1@{DIGEST}").version == DIGEST
    assert (reference_of("r.lab/a:1").version, reference_of("r.lab/a").version) == ("1", "latest")
