"""The command that the form of the page shows: typed into a shell, it sends the very body that the form submits."""
import shlex

import pytest
from fake_server import a_session

from gpufairy.web.launch_form import Typed, body_of
from gpufairy.web.launch_text import command_line
from gpufairy.wire.submit import SubmitBody

JOB = Typed(
    kind="batch", command="echo \"$A\" | tr a-z A-Z > 'my file'", image="pytorch/pytorch:2.8", gpus="mig:1g.5gb", gpu_kind="A100-40GB", cpus="0.5",
    memory="16GiB", time="2h", mounts="data\nmodels", count="4", together="yes", preemptible="yes", priority="-10", name="train",
    env="A=two words\nB=", ports="8080, 6006", workdir="/home/ann", after="prepare", retry="2", team="vision", pool="big",
)  # fmt: skip


@pytest.mark.parametrize("typed", [JOB, Typed(gpus="0.5", gpu_memory="20GiB", time="8h"), Typed(kind="batch", command="python train.py -x --name=y")])
def test_the_command_shown_sends_what_the_form_submits(server, fairy, typed):
    server.answers["GET", "/me"] = {"name": "student1", "role": "user", "machine": "another"}
    made = a_session()
    server.answers["POST", "/sessions"] = (201, {"items": [made]} if typed.count else made)
    body = body_of(typed)
    _, verb, *words = shlex.split(command_line(body, "fairy"))
    assert fairy(verb, "--detach", *words).code == 0
    (sent,) = [asked.body for asked in server.asked if (asked.method, asked.path) == ("POST", "/sessions")]
    assert SubmitBody.model_validate(sent) == body
