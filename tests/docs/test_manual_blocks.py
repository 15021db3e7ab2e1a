"""Every block of every page, before anything is run: it is well formed, and the command line knows what it calls."""
import json
import subprocess
import tomllib

import pytest
import yaml
from command_words import inline_calls, wrong_with
from pages import DOCS, ROOT, Block, blocks, english
from stage import AIDS

from gpufairy.wire.config import Config

PAGES = sorted([ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("reference/*.md")])
ALL = [block for path in PAGES for block in blocks(path)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_call_of_fairy_is_one_that_it_understands(path):
    wrong = [(call, wrong_with(call)) for call in inline_calls(path.read_text())]
    for block in blocks(path):
        wrong += [(command.text, wrong_with(command.text)) for command in block.commands if not command.program]
    assert [(call, why) for call, why in wrong if why is not None] == []


@pytest.mark.parametrize("typed", ["fairy runn -- true", "fairy run --gpu 1 -- true", "fairy node drian gpu01", "cd x && fairy ps --al", "fairy --srv x ps"])
def test_a_call_that_it_would_not_understand_is_found(typed):
    assert wrong_with(typed) is not None


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_block_of_commands_is_shell(path):
    script = "\n".join(command.text for block in blocks(path) for command in block.commands if not command.program)
    checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, ""), path


@pytest.mark.parametrize("block", [block for block in ALL if block.language in ("json", "yaml", "toml", "python")], ids=str)
def test_every_other_block_is_what_it_says_it_is(block: Block):
    if block.language == "json":
        decoder, text = json.JSONDecoder(), block.text.strip()
        while text:  # some show several answers, one after the other
            _value, end = decoder.raw_decode(text)
            text = text[end:].strip()
    elif block.language == "yaml":
        assert yaml.safe_load(block.text)
    elif block.language == "toml":
        Config.model_validate(tomllib.loads(block.text))
    else:
        compile(block.text, str(block), "exec")


def test_every_help_that_a_page_gets_is_for_a_command_that_is_there():
    typed = {page: [command.text for block in blocks for command in block.commands] for page, blocks in english().items()}
    assert [(page, words) for page, aids in AIDS.items() for words in aids if not any(text.startswith(words) for text in typed[page])] == []
