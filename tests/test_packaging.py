"""What the package says of itself: every import declared, versions that agree, links that lead somewhere outside the repository too."""
import ast
import re
import sys
import tomllib
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.metadata import packages_distributions
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from gpufairy import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
README = (ROOT / "README.md").read_text()
OPTIONAL = {"engines/clouds/eks.py": "eks", "engines/clouds/gke.py": "gke"}  # which extra brings what these import


@cache
def hook() -> ModuleType:
    """As hatchling loads it: by its path."""
    loader = SourceFileLoader("readme_hook", str(ROOT / "deploy" / "wheel" / "readme_hook.py"))
    made = module_from_spec(spec_from_loader("readme_hook", loader))
    loader.exec_module(made)
    return made


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(extra: str | None) -> set[str]:
    told = PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"].get(extra, [])
    return {canonical(Requirement(one).name) for one in told}


def imported_by(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return {name.split(".")[0] for name in found} - sys.stdlib_module_names - {"gpufairy"}


@pytest.mark.slow
def test_every_package_that_is_imported_is_declared_and_none_is_there_by_chance():
    brought_by = packages_distributions()
    source, used = ROOT / "src" / "gpufairy", set()
    for path in source.rglob("*.py"):
        known = declared(OPTIONAL.get(path.relative_to(source).as_posix()))
        for name in imported_by(path):
            names = {canonical(one) for one in brought_by.get(name, [name])}
            assert names & known, f"{path.relative_to(ROOT)} imports {name}, of {names}, which pyproject.toml does not name"
            used |= names
    assert declared(None) - used == set(), "declared and not imported"


def test_the_supported_pythons_are_the_same_wherever_they_are_named():
    named = {one.rpartition(" ")[2] for one in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", one)}
    allowed = SpecifierSet(PROJECT["project"]["requires-python"])
    assert named == {f"3.{minor}" for minor in range(8, 30) if allowed.contains(f"3.{minor}")}


def test_the_version_is_the_same_in_chart_readme_and_changelog():
    chart = (ROOT / "deploy" / "helm" / "gpufairy" / "Chart.yaml").read_text()
    assert re.findall(r'^(?:version|appVersion): "?([^"\n]+)', chart, re.MULTILINE) == [__version__, __version__]
    assert f"This is version {__version__}." in README
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_without_a_public_repository_no_link_leads_to_a_file_that_is_not_there():
    text = hook().outside(README, "", __version__)
    assert re.findall(r"\]\((?!https?://|mailto:|#)[^)]*\)", text) == []
    assert "the manual (`docs/manual.md`)" in text.lower()
    assert "docs/images/" not in text
    assert hook().addresses("") == {}


def test_with_one_every_link_leads_there_to_this_very_version():
    text = hook().outside(README, "https://git.example/gpufairy", "9.9.9")
    links = re.findall(r"\]\((?!#)([^)]*)\)", text)
    assert len(links) > 30
    assert all(link.startswith("https://git.example/gpufairy/") for link in links)
    assert "![" in text
    assert "https://git.example/gpufairy/raw/v9.9.9/docs/images/launch.png" in links
    assert set(hook().addresses("https://git.example/gpufairy")) == {"Source", "Documentation", "Changelog", "Issues"}


@pytest.mark.parametrize("written", ["[a](https://x.example/y)", "[a](#part)", "![a](https://x.example/y.png)", "[a](mailto:a@b.example)"])
def test_links_that_lead_elsewhere_stay_as_they_are(written):
    assert hook().outside(written, "", "1") == written == hook().outside(written, "https://git.example/x", "1")


def test_every_file_that_readme_leads_to_is_there():
    for path in re.findall(r"\]\((?!https?://|mailto:|#)([^)#]*)", README):
        assert (ROOT / path).exists(), path
