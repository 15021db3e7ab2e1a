"""A software bill of materials, as CycloneDX JSON: `python deploy/sbom.py requirements.lock > sbom.json`.

The packages of a lock, the scripts that our pages bring along, and what is linked into the native parts; each with its licence
where we know it (deploy/licences.json). The same sources give the same bill, to the last byte, by the standard library alone.
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
STATIC = ROOT / "src" / "gpufairy" / "web" / "static"
OURS = {"type": "application", "bom-ref": "gpufairy", "name": "gpufairy", "licenses": [{"expression": "Apache-2.0"}]}
# As published on npm, unchanged, each with its licence beside it: name, version, licence, files.
VENDORED = (
    ("htmx.org", "2.0.11", "0BSD", ("htmx.js",)),
    ("idiomorph", "0.8.0", "0BSD", ("idiomorph.js",)),
    ("uplot", "1.6.32", "MIT", ("uplot.js", "uplot.css")),
    ("@xterm/xterm", "5.5.0", "MIT", ("xterm.js", "xterm.css")),
    ("@xterm/addon-fit", "0.10.0", "MIT", ("xterm-fit.js",)),
)
# Linked into the programs that a wheel or an image brings ready; its version is that of the machine where it was made.
GLIBC = {
    "type": "library", "bom-ref": "glibc", "name": "glibc", "licenses": [{"expression": "LGPL-2.1-or-later"}],
    "properties": [{"name": "gpufairy:only-where", "value": "static programs in gpufairy/native_bin"}],
}  # fmt: skip


def bill_of(lock: str, version: str) -> dict[str, Any]:
    components = [*components_of(lock), *(vendored(*one) for one in VENDORED), GLIBC]
    digest = hashlib.sha256(json.dumps(components).encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}", "version": 1,
        "metadata": {"component": {**OURS, "version": version}},
        "components": components,
    }  # fmt: skip


def vendored(name: str, version: str, licence: str, files: tuple[str, ...]) -> dict[str, Any]:
    purl = f"pkg:npm/{name.replace('@', '%40')}@{version}"
    parts = [
        {"type": "file", "name": f"gpufairy/web/static/{file}", "hashes": [{"alg": "SHA-256", "content": sha256(STATIC / file)}]}
        for file in files
    ]
    said = {"name": name, "version": version, "licenses": [{"expression": licence}], "purl": purl, "components": parts}
    return {"type": "library", "bom-ref": purl, **said}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def components_of(lock: str) -> list[dict[str, Any]]:
    licences = json.loads((ROOT / "deploy" / "licences.json").read_text())
    found = list(LOCKED.finditer(lock))
    ends = [one.start() for one in found[1:]] + [len(lock)]
    return [component(one, HASH.findall(lock, one.end(), end), licences) for one, end in zip(found, ends, strict=True)]


def component(locked: re.Match[str], hashes: list[str], licences: dict[str, str]) -> dict[str, Any]:
    name, version, marker = re.sub(r"[-_.]+", "-", locked["name"]).lower(), locked["version"], locked["marker"]
    purl = f"pkg:pypi/{name}@{version}"
    licence = {"licenses": [{"expression": licences[name]}]} if name in licences else {}
    where = {"properties": [{"name": "gpufairy:only-where", "value": marker}]} if marker else {}
    held_to = [{"alg": "SHA-256", "content": one} for one in hashes]
    files = {"type": "distribution", "url": f"https://pypi.org/project/{name}/{version}/", "hashes": held_to}
    return {
        "type": "library", "bom-ref": purl, "name": name, "version": version, **licence, "purl": purl,
        "externalReferences": [files], **where,
    }  # fmt: skip


def own_version() -> str:
    text = (ROOT / "src" / "gpufairy" / "__init__.py").read_text()
    found = re.search(r'__version__ = "([^"]+)"', text)
    return found[1] if found else "unknown"


if __name__ == "__main__":
    lock = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "requirements.lock"
    sys.stdout.write(json.dumps(bill_of(lock.read_text(), own_version()), indent=1) + "\n")
