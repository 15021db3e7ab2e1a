"""ssh, keep, swap, commit and image: what they ask the server, what they print, how they end."""
import json

import pytest
from fake_server import running

MADE = {
    "name": "kim/apex:1", "id": "sha256:1", "owner": "kim", "made_from": "ubuntu:24.04", "session": "brave-otter", "size_bytes": 2**30,
    "made_at": "2026-11-15T08:00:00Z", "state": "waiting", "packages": [f"+ pip p{number} 1.0" for number in range(25)], "decided_by": None,
}  # fmt: skip
IMAGE = {
    "name": "kim/apex:1", "id": "sha256:1", "size_bytes": 2**30, "created_at": None, "cuda": "12.4", "last_used_at": None, "default": False,
    "root_inside": True, "allowed": True, "why_not": None, "made": MADE,
}  # fmt: skip
OTHER = {**IMAGE, "name": "ubuntu:24.04", "made": None, "default": True, "root_inside": False, "cuda": None}


@pytest.fixture
def canned(server):
    here = "/sessions/brave-otter"
    server.answers |= {
        ("GET", here): running(request={"image": "pytorch:2.7"}),
        ("POST", f"{here}/keep"): running(ends_at="2026-11-15T12:00:00Z"),
        ("POST", f"{here}/resume"): (201, running(request={"image": "kim/reclaimed:brave-otter"})),
        ("POST", f"{here}/swap"): running(request={"image": "pytorch:2.7"}),
        ("POST", f"{here}/commit"): (201, MADE),
        ("GET", "/images"): {"items": [IMAGE, OTHER], "next": None},
        ("POST", "/images/approve"): MADE,
        ("POST", "/images/refuse"): MADE,
        ("DELETE", "/images"): (204, None),
    }
    return server


def test_keep_says_until_when(canned, fairy):
    done = fairy("keep", "brave-otter", "2h")
    assert done.code == 0
    assert "brave-otter may run until" in done.out
    assert canned.asked[-1].body == {"time": "2h"}


def test_keep_of_one_without_a_limit_says_how_long_nothing_is_asked_back(canned, fairy):
    canned.answers["POST", "/sessions/brave-otter/keep"] = running(ends_at=None, idle={"step": None, "kept_until": "2026-11-15T12:00:00Z"})
    assert "keeps its GPUs until" in fairy("keep", "brave-otter", "2h").out


def test_resume_says_from_what(canned, fairy):
    done = fairy("resume", "brave-otter")
    assert (done.code, done.out) == (0, "brave-otter is submitted again, from image kim/reclaimed:brave-otter; see `fairy ps`\n")


def test_show_says_how_far_an_idle_session_has_come(canned, fairy):
    idle = {"step": "lent", "since": "2026-11-15T12:00:00Z", "kept_until": None}
    canned.answers["GET", "/sessions/brave-otter"] = running(idle=idle)
    assert "lent since" in fairy("show", "brave-otter").out


def test_swap_says_what_runs_now(canned, fairy):
    done = fairy("swap", "brave-otter", "pytorch:2.7")
    assert (done.code, done.out) == (0, "brave-otter runs pytorch:2.7\n")


def test_a_swap_that_went_back_fails_and_says_why(canned, fairy):
    canned.answers["POST", "/sessions/brave-otter/swap"] = running(request={"image": "gpufairy-kept/x:1"}, why="pytorch:2.7 did not start")
    done = fairy("swap", "brave-otter", "pytorch:2.7")
    assert done.code == 1
    assert "pytorch:2.7 did not start" in done.err


def test_commit_shows_size_and_packages_and_who_may_use_it(canned, fairy):
    done = fairy("commit", "brave-otter", "kim/apex:1")
    assert done.code == 0
    for words in ("1 GiB, made from ubuntu:24.04", "+ pip p0 1.0", "and 5 more", "once an admin has approved"):
        assert words in done.out


def test_images_are_listed_side_by_side(canned, fairy):
    done = fairy("image", "list")
    assert done.code == 0
    for words in ("kim/apex:1", "12.4", "you are root in it, waits for approval", "ubuntu:24.04", "default"):
        assert words in done.out


def test_one_image_is_shown_with_what_was_put_into_it(canned, fairy):
    assert "+ pip p24 1.0" in fairy("image", "show", "kim/apex:1").out
    done = fairy("image", "show", "kim/apxe:1")
    assert done.code == 4
    assert "did you mean kim/apex:1" in done.err


@pytest.mark.parametrize(("command", "words"), [("approve", "everybody may use"), ("refuse", "nobody may use"), ("remove", "is removed")])
def test_admins_decide_on_images(canned, fairy, command, words):
    done = fairy("image", command, "kim/apex:1")
    assert (done.code, words in done.out) == (0, True)


@pytest.mark.parametrize("command", [["image", "list"], ["image", "show", "kim/apex:1"], ["keep", "brave-otter", "2h"], ["resume", "brave-otter"], ["commit", "brave-otter", "a:1"]])
def test_each_prints_one_json_document(canned, fairy, command):
    done = fairy(*command, "--json")
    assert done.code == 0
    assert json.loads(done.out)


def a_program(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)


def test_ssh_is_the_one_of_this_machine_with_the_right_words(canned, spawn, environment, tmp_path):
    a_program(tmp_path, "ssh", 'echo "$@"; exit 7')
    canned.answers["GET", "/me"] = {"name": "kim", "role": "user", "ssh_port": 8422}
    canned.answers["GET", "/keys"] = {"items": [{"fingerprint": "SHA256:x"}]}
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    process = spawn("ssh", "brave-otter", "nvidia-smi", "-L")
    out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (7, b"-p 8422 kim+brave-otter@127.0.0.1 -- nvidia-smi -L\n")


def test_the_gateway_is_known_by_the_key_that_the_server_tells(canned, spawn, environment, tmp_path):
    a_program(tmp_path, "ssh", 'echo "$2"')
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI"
    canned.answers["GET", "/me"] = {"name": "kim", "role": "user", "ssh_port": 8422, "ssh_host_key": key}
    canned.answers["GET", "/keys"] = {"items": [{"fingerprint": "SHA256:x"}]}
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    out, _ = spawn("ssh").communicate(timeout=20)
    known = tmp_path / ".config" / "gpufairy" / "known_hosts"
    assert out.decode() == f'UserKnownHostsFile="{known}" ~/.ssh/known_hosts\n'
    assert known.read_text() == f"[127.0.0.1]:8422 {key}\n"


def test_ssh_without_a_key_that_the_server_knows_says_how_to_give_it_one(canned, fairy):
    canned.answers["GET", "/me"] = {"name": "kim", "role": "user", "ssh_port": 8422}
    canned.answers["GET", "/keys"] = {"items": []}
    done = fairy("ssh")
    assert (done.code, "knows no SSH key of yours" in done.err, "fairy key add" in done.err) == (1, True, True)


def test_ssh_without_a_gateway_says_so(canned, fairy):
    canned.answers["GET", "/keys"] = {"items": []}
    done = fairy("ssh")
    assert done.code == 1
    assert "no SSH gateway" in done.err
