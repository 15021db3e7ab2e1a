"""Images: names, who may use which, and which CUDA a driver takes."""
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.errors import BadInput
from gpufairy.core.image import (
    Image,
    ImageRules,
    ImageState,
    MadeImage,
    cuda_of,
    cuda_refusal,
    image_name,
    is_ours,
    kept_name,
    major,
    own_prefix,
    package_difference,
)
from gpufairy.core.people import Role, User
from scenes import NOW

RULES = ImageRules("ubuntu:24.04", allow=("ubuntu:*", "pytorch/*"), root=("kim/*",))
KIM = User("kim", Role.USER, NOW, team="nlp")
MADE = MadeImage("kim/apex:1", "sha256:1", "kim", "ubuntu:24.04", "id1", "brave-otter", 10, NOW)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ubuntu", "ubuntu:latest"), ("ubuntu:24.04", "ubuntu:24.04"), ("pytorch/pytorch:2.7.0-cuda12.6-cudnn9-runtime",) * 2,
        ("localhost:5000/a/b:1",) * 2, ("localhost:5000/a", "localhost:5000/a:latest"), ("nvcr.io/nvidia/pytorch:24.01-py3",) * 2,
        ("a@sha256:" + "0" * 64,) * 2, ("docker.io/library/ubuntu", "ubuntu:latest"), ("Docker.IO/kim/x:1", "kim/x:1"),
    ],
)  # fmt: skip
def test_names_are_read_as_registries_write_them(written, meant):
    assert image_name(written) == meant


@pytest.mark.parametrize("text", ["", "-x", "a b", "a;rm -rf /", "a\0b", "../up", "a//b", "a:b:c", "$(id)", "a" * 300, "이미지", "a:", "/a", "--privileged", "sha256:" + "0" * 64, "sha256", "docker.io/sha256:1"])
def test_what_is_no_image_name_is_refused(text):
    with pytest.raises(BadInput, match="image"):
        image_name(text)


@given(st.text(max_size=300))
def test_whatever_is_written_is_read_or_refused(text):
    try:
        meant = image_name(text)
    except BadInput:
        return
    assert image_name(meant) == meant


def test_users_use_what_is_offered_and_admins_anything():
    assert RULES.refusal("pytorch/pytorch:2.7", KIM, False, None) is None
    assert "not one of those offered" in RULES.refusal("evil/miner:1", KIM, False, None)
    assert RULES.refusal("evil/miner:1", KIM, True, None) is None


def test_a_user_or_a_team_may_be_offered_more_than_others():
    rules = replace(RULES, allow_for={"team:nlp": ("secret/*",), "lee": ("lees/*",)})
    lee = replace(KIM, name="lee", team=None)
    assert [rules.refusal(image, user, False, None) is None for user in (KIM, lee) for image in ("secret/a:1", "lees/a:1")] == [True, False, False, True]


@pytest.mark.parametrize(
    ("state", "user", "allowed"),
    [
        (ImageState.WAITING, "kim", True), (ImageState.WAITING, "lee", False), (ImageState.APPROVED, "lee", True),
        (ImageState.REFUSED, "kim", False), (ImageState.REFUSED, "lee", False),
    ],
)  # fmt: skip
def test_an_image_made_here_is_its_makers_until_an_admin_says_yes(state, user, allowed):
    assert (RULES.refusal(MADE.name, replace(KIM, name=user), False, replace(MADE, state=state, decided_by="ann")) is None) is allowed


def test_root_inside_is_a_right_of_named_images_alone():
    assert RULES.root_inside("kim/apex:1")
    assert not RULES.root_inside("ubuntu:24.04")


@pytest.mark.parametrize(
    ("needs", "driver", "works"),
    [("12.4.1", "13.0", True), ("13.1", "13.0", True), ("13.0", "12.8", False), (None, "12.8", True), ("13.0", None, True), ("odd", "12", True)],
)
def test_an_image_for_a_newer_cuda_than_the_drivers_is_refused_in_words(needs, driver, works):
    refusal = cuda_refusal(Image("a:1", "id", 1, cuda=needs), driver)
    assert (refusal is None) is works
    if not works:
        assert "CUDA 13.0" in refusal
        assert "12.8" in refusal


def test_the_cuda_of_an_image_is_read_as_nvidia_writes_it():
    assert cuda_of({"CUDA_VERSION": "12.4.1"}, {}) == "12.4.1"
    assert cuda_of({"NVIDIA_REQUIRE_CUDA": "cuda>=11.8 brand=tesla,driver>=450"}, {}) == "11.8"
    assert cuda_of({"CUDA_VERSION": "latest"}, {}) is None


def test_packages_that_came_and_went_are_told():
    assert package_difference(["pip numpy 1.0", "apt vim 9"], ["pip numpy 2.0", "apt vim 9", "conda ffmpeg 6"]) == (
        "+ conda ffmpeg 6", "- pip numpy 1.0", "+ pip numpy 2.0",
    )  # fmt: skip


def test_a_refusal_names_ten_of_the_patterns_that_are_offered():
    rules = replace(RULES, allow=tuple(f"p{n}/*" for n in range(12)))
    told = rules.refusal("evil/miner:1", KIM, False, None)
    assert told.endswith("(" + ", ".join(f"p{n}/*" for n in range(10)) + ")")
    assert replace(RULES, allow=()).refusal("evil/miner:1", KIM, False, None).endswith("(none)")


def test_by_default_anything_may_be_used_and_fifty_gib_be_made_of_which_an_admin_decides():
    rules = ImageRules("ubuntu:24.04")
    assert rules.refusal("any/thing:1", KIM, False, None) is None
    assert (rules.pull, rules.commit, rules.commit_quota_bytes, rules.root) == (True, "approve", 50 * 2**30, ())


def test_what_is_kept_for_a_session_to_go_back_to_is_nobodys_not_even_an_admins():
    kept = kept_name("s1", 2)
    assert kept == "gpufairy-kept/s1:2"
    for name in (kept, "gpufairy/agent:1"):
        assert is_ours(name)
        assert "for nobody else" in RULES.refusal(name, KIM, True, None)
    assert not is_ours("kim/gpufairy:1")


def test_an_admin_may_use_what_waits_or_was_turned_down():
    for state in ImageState:
        assert RULES.refusal(MADE.name, replace(KIM, name="lee"), True, replace(MADE, state=state)) is None


@pytest.mark.parametrize(("user", "prefix"), [("kim", "kim/"), ("kim.b-c_d", "kim.b-c_d/"), ("Kim", "u7/"), ("-kim", "u7/"), ("김", "u7/")])
def test_images_that_a_user_makes_begin_with_their_name_where_it_can_be_part_of_one(user, prefix):
    assert own_prefix(user, 7) == prefix


@pytest.mark.parametrize(("version", "number"), [("12.4.1", 12), ("9", 9), (None, None), ("", None), ("odd", None), ("1234", 123)])
def test_the_major_version_of_cuda_is_its_first_number(version, number):
    assert major(version) == number


def test_as_long_as_registries_take_them_names_are_taken():
    assert image_name("a" * 248 + ":latest") == "a" * 248 + ":latest"
    with pytest.raises(BadInput):
        image_name("a" * 249 + ":latest")
