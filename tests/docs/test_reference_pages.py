"""The reference is what the code says."""
import pytest
from docs.generate.__main__ import made
from docs.generate.korean import KOREAN

from gpufairy.cli.table import COMMANDS
from gpufairy.core.alert_rules import ALL_RULES


@pytest.mark.slow
def test_the_pages_of_reference_are_what_the_code_makes():
    stale = [path.name for path, text in made().items() if not path.exists() or path.read_text() != text]
    assert stale == [], "run `PYTHONPATH=src python -m docs.generate`"


def test_what_commands_and_alerts_are_for_is_said_in_korean_too():
    asked = [*(row.about for row in COMMANDS.values()), *(rule.what for rule in ALL_RULES)]
    assert [words for words in asked if words not in KOREAN] == [], "say it in docs/generate/korean.py"
