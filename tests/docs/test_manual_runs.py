"""Every command of the manual is run, each page from top to bottom on a machine of its own, and prints what the page shows."""
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import labs
import pytest
from box import Box
from pages import english
from play import play
from stage import IN_CONTAINERS, NOT_RUN, why_not_run

from kube.start import programs_of

pytestmark = [pytest.mark.system, pytest.mark.slow]
Scene = Callable[[], AbstractContextManager[Box]]
SCENES: dict[str, Scene] = {  # any other page is played on a laptop
    "admin.md": labs.bare_server, "first.md": labs.box, "monitoring.md": labs.box, "kubernetes.md": labs.box,
    "mig.md": partial(labs.laptop, "--simulate", "1xA100:mig"), "scheduling.md": partial(labs.laptop, "--simulate", "4xA100-40GB,1xH200"),
}  # fmt: skip
HELM = """#!/bin/sh
# What would be installed: an installation takes a cluster, and is tried in tests/kube.
shift; [ "$1" = --install ] && shift
for word; do shift; case $word in --reuse-values|--create-namespace) ;; *) set -- "$@" "$word" ;; esac; done
exec {helm} template "$@"
"""
PAGES = {page: [command for block in blocks for command in block.commands] for page, blocks in english().items() if page not in IN_CONTAINERS}


# kubernetes.md calls helm, which is built with Kubernetes.
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.kubernetes] * (page == "kubernetes.md")) for page, commands in PAGES.items() if commands]
)
def test_every_command_of_the_page_does_what_the_page_says(page):
    nothing_to_run = all(why_not_run(command.text) for command in PAGES[page])
    scene = labs.box if nothing_to_run else SCENES.get(page, labs.laptop)
    with scene() as box:
        if any(command.text.startswith("helm ") for command in PAGES[page]):
            put_helm(box.folder / "bin" / "helm")
        wrong = play(box, page, english()[page])
    assert not wrong, "\n\n".join(wrong)


def test_every_reason_not_to_run_something_is_needed():
    texts = [command.text for blocks in english().values() for block in blocks for command in block.commands]
    assert [words for words, _why in NOT_RUN if not any(words.match(text) for text in texts)] == []


def put_helm(path: Path) -> None:
    path.write_text(HELM.format(helm=programs_of("helm")["helm"]))
    path.chmod(0o755)
