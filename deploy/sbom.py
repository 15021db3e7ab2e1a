"""A software bill of materials from a lock, as CycloneDX JSON: `python deploy/sbom.py requirements.lock > sbom.json`.

The same lock gives the same bill, to the last byte. Nothing but the standard library is needed.
"""
import hashlib
import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCKED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<marker>[^\\]+?))?\s*\\?$", re.MULTILINE)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def bill_of(lock: str, version: str) -> dict[str, Any]:
    digest = hashlib.sha256(lock.encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}", "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "gpufairy", "name": "gpufairy", "version": version}},
        "components": components_of(lock),
    }  # fmt: skip


def components_of(lock: str) -> list[dict[str, Any]]:
    found = list(LOCKED.finditer(lock))
    ends = [one.start() for one in found[1:]] + [len(lock)]
    return [component(one, HASH.findall(lock, one.end(), end)) for one, end in zip(found, ends, strict=True)]


def component(locked: re.Match[str], hashes: list[str]) -> dict[str, Any]:
    name, version, marker = re.sub(r"[-_.]+", "-", locked["name"]).lower(), locked["version"], locked["marker"]
    purl = f"pkg:pypi/{name}@{version}"
    where = {"properties": [{"name": "gpufairy:only-where", "value": marker}]} if marker else {}
    held_to = [{"alg": "SHA-256", "content": one} for one in hashes]
    files = {"type": "distribution", "url": f"https://pypi.org/project/{name}/{version}/", "hashes": held_to}
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "externalReferences": [files], **where}


def own_version() -> str:
    text = (ROOT / "src" / "gpufairy" / "__init__.py").read_text()
    found = re.search(r'__version__ = "([^"]+)"', text)
    return found[1] if found else "unknown"


if __name__ == "__main__":
    lock = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "requirements.lock"
    sys.stdout.write(json.dumps(bill_of(lock.read_text(), own_version()), indent=1) + "\n")
