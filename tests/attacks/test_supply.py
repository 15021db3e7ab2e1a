"""What we are made of: a bill of materials that names every locked package, locks with a hash for each, and code that a linter for security has read."""
import contextlib
import hashlib
import json
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src" / "gpufairy" / "web" / "static"


def locked_in(lock: Path) -> set[tuple[str, str]]:
    """Read another way than the bill does: word by word. Some have one version for each Python."""
    words = [line.split()[0] for line in lock.read_text().splitlines() if line and line[0].isalnum()]
    return {(name.partition("[")[0].lower().replace("_", "-").replace(".", "-"), version) for name, _, version in (word.partition("==") for word in words)}


def bill_of(lock: Path) -> str:
    return subprocess.run([sys.executable, ROOT / "deploy" / "sbom.py", lock], capture_output=True, text=True, check=True).stdout


def packages_of(bill: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in bill["components"] if one.get("purl", "").startswith("pkg:pypi/")]


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_the_bill_of_materials_names_every_locked_package_and_no_other(name):
    bill = json.loads(bill_of(ROOT / name))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    packages = packages_of(bill)
    listed = {(one["name"], one["version"]) for one in packages}
    assert listed == locked_in(ROOT / name)
    assert len(listed) == len(packages) > 30
    assert all(one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}" for one in packages)


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_every_locked_package_is_held_to_its_hash(name):
    for one in packages_of(json.loads(bill_of(ROOT / name))):
        assert one["externalReferences"][0]["hashes"], one["name"]


def test_every_script_that_is_not_ours_is_in_the_bill_with_its_licence_and_hash():
    scripts = [one for one in json.loads(bill_of(ROOT / "requirements.lock"))["components"] if one.get("purl", "").startswith("pkg:npm/")]
    listed = {part["name"].rpartition("/")[2]: part["hashes"][0]["content"] for one in scripts for part in one["components"]}
    for name, content in listed.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == content
    ours = set("charts classes cluster launch log look page terminal".split())
    assert {path.name for path in STATIC.iterdir() if path.suffix in (".js", ".css") and path.stem not in ours} == set(listed)
    notice = (ROOT / "NOTICE").read_text()
    for one in scripts:
        assert one["version"] in notice, f"NOTICE says nothing of {one['name']} {one['version']}"
        assert one["licenses"][0]["expression"] in {"0BSD", "MIT"}


def test_every_package_that_is_run_has_its_licence_in_the_bill_and_it_is_the_one_that_the_package_says():
    for one in packages_of(json.loads(bill_of(ROOT / "requirements.lock"))):
        [licence] = one["licenses"]
        with contextlib.suppress(PackageNotFoundError):  # for other systems or another Python
            told = metadata(one["name"]).get("License-Expression")
            assert told in (None, licence["expression"]), one["name"]


def test_the_same_lock_gives_the_same_bill():
    assert bill_of(ROOT / "requirements.lock") == bill_of(ROOT / "requirements.lock")


def test_rules_of_security_are_on_for_all_that_is_shipped_and_each_exception_has_its_reason():
    text = (ROOT / "pyproject.toml").read_text()
    lint = tomllib.loads(text)["tool"]["ruff"]["lint"]
    assert "S" in lint["select"]
    for line in text.splitlines():
        named = [rule for rule in ("S1", "S3", "S6", "S7") if f'"{rule}' in line]
        assert not named or "#" in line, f"no reason is given: {line}"
    shipped = [pattern for pattern, rules in lint["per-file-ignores"].items() if "S" in rules and pattern.startswith("src")]
    assert shipped == []
