"""The session file that the form shows: read back it is the very body that the form submits."""
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import GIB, a_session
from gpufairy.cli.session_file import read_sessions
from gpufairy.core.errors import BadInput
from gpufairy.core.session import Request, SessionKind
from gpufairy.core.share import parse_share
from gpufairy.web.launch_form import Typed, body_of, body_of_session, changed, line_of, typed_from, typed_of, words_of
from gpufairy.web.launch_text import command_line, session_file
from gpufairy.wire.submit import SubmitBody, understood

FULL = Typed(
    kind="batch", command="python train.py --lr=0.1", image="pytorch/pytorch:2.8", gpus="0.5", gpu_kind="A100-40GB", gpu_memory="20GiB",
    cpus="4", memory="16GiB", time="1h30m", mounts="data\nmodels", count="4", together="yes", preemptible="yes", priority="-10",
    name="train", env="A=1\nB= two words: #3\nC=", ports="8080, 6006", workdir="/home/ann", after="prepare, fetch", retry="2",
    team="vision", pool="big",
)  # fmt: skip
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)


def read_back(body: SubmitBody) -> SubmitBody:
    (read,) = read_sessions(session_file(body).encode(), "shown.yaml", toml=False)
    return SubmitBody.model_validate(read)


def test_the_file_says_what_is_submitted_to_the_letter():
    assert read_back(body_of(FULL)) == body_of(FULL)
    assert read_back(body_of(Typed())) == body_of(Typed())


@pytest.mark.parametrize("command", ["echo $HOME | wc -c", "python -c \"print('no: yes')\"", "a\nb # c", "null", "2024-01-01", "X=1 env", "[a]: {b}"])
def test_whatever_a_shell_would_run_comes_back_as_it_was(command):
    body = body_of(replace(FULL, command=command))
    assert read_back(body) == body


@given(st.lists(TEXT, min_size=1, max_size=4), st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True), TEXT, max_size=3))
def test_no_text_is_lost_or_changed_by_being_written_down(words, env):
    body = SubmitBody(kind="batch", command=words, env=env or None, mounts=words)
    assert read_back(body) == body


def test_the_command_is_run_for_a_job_and_start_for_an_interactive_session():
    assert command_line(body_of(Typed(gpus="0.5", time="2h")), "fairy") == "fairy start --gpus 0.5 --time 2h"
    job = body_of(Typed(kind="batch", command="python 'my train.py'", priority="-10"))
    assert command_line(job, "fairy") == "fairy run --priority=-10 -- python 'my train.py'"


def test_words_run_as_they_are_and_what_means_something_to_a_shell_is_given_to_one():
    assert words_of("python train.py --lr=0.1 'two words'") == ["python", "train.py", "--lr=0.1", "two words"]
    assert words_of("LR=0.1 python train.py") == ["sh", "-c", "LR=0.1 python train.py"]
    with pytest.raises(BadInput, match=r"^command: .* has a quote that is not closed"):
        words_of("echo 'open")


@given(st.lists(TEXT, min_size=1, max_size=4))
def test_a_command_put_into_the_form_is_the_same_when_it_is_sent_again(words):
    again = words_of(line_of(words))
    if again[:2] != ["sh", "-c"]:
        assert again == words
    assert line_of(again) == line_of(words)


def test_a_preset_fills_the_form_and_the_form_asks_for_the_same():
    assert body_of(typed_from(body_of(FULL))) == body_of(FULL)
    preset = SubmitBody(gpus=1, command="make all", time="2h")
    assert body_of(typed_from(preset)) == SubmitBody(kind="batch", gpus="1", command=["make", "all"], time="2h")


def test_what_was_started_before_is_asked_for_once_more_without_its_name_and_what_it_came_after():
    request = Request(
        parse_share("0.25"), ("python", "x.py"), 1500, 3 * GIB, "A100-40GB", None, "ubuntu:24.04", timedelta(minutes=90), (("A", "b"),),
        ("data",), (80,), "/tmp", 2, ("someid",), GIB, preemptible=True,
    )  # fmt: skip
    body = body_of_session(a_session("python", "x.py", request=request, kind=SessionKind.BATCH, priority=10))
    again = understood(body, has_gpus=True)
    assert again.request == replace(request, after=())
    assert (again.name, again.priority, body.time, body.memory) == (None, 0, "90m", "3GiB")


def test_another_share_or_image_is_what_was_typed_beside_the_choice():
    typed = typed_of({"gpus": "other", "gpus_other": " 0.3 ", "image": "other", "image_other": "a/b:1", "evil": "x"})
    assert (typed.gpus, typed.image) == ("0.3", "a/b:1")


@pytest.mark.parametrize(
    ("field", "value"), [("count", "two"), ("ports", "80, x"), ("env", "A"), ("retry", "1e9"), ("count", "99999999999999999999")]
)
def test_what_cannot_be_read_is_refused_by_the_name_of_its_field(field, value):
    with pytest.raises(BadInput, match=rf"^{field}: "):
        body_of(replace(FULL, **{field: value}))


def test_a_link_to_the_form_holds_no_variables():
    assert changed(FULL)["gpus"] == "0.5"
    assert "env" not in changed(FULL)
    assert changed(Typed()) == {}
