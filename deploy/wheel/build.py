"""Makes gpufairy's wheel, by the standard library alone: no network, no build tool. The same sources give the same file, byte for byte.

    python deploy/wheel/build.py --out dist          dist/gpufairy-VERSION-py3-none-any.whl

What goes into it stands in pyproject.toml. Native parts come as source, and are compiled on first use.
"""
import argparse
import base64
import hashlib
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
THEN = (1980, 1, 1, 0, 0, 0)  # the first day that a zip knows: a wheel says nothing of when it was made
LEFT_OUT = ("__pycache__", ".pytest_cache")
TAG = "py3-none-any"


def build(out: Path) -> Path:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    name, version = project["project"]["name"], version_of(project)
    info = f"{name}-{version}.dist-info"
    entries = {**dict(sorted(package_files(project))), **info_files(project, version, info)}
    record = "".join(f"{path},{digest(body)},{len(body)}\n" for path, body in entries.items()) + f"{info}/RECORD,,\n"
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"{name}-{version}-{TAG}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packing:
        for path, body in {**entries, f"{info}/RECORD": record.encode()}.items():
            member = zipfile.ZipInfo(path, THEN)
            member.external_attr, member.compress_type = 0o100644 << 16, zipfile.ZIP_DEFLATED
            packing.writestr(member, body)
    return wheel


def package_files(project: dict) -> Iterator[tuple[str, bytes]]:
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    for package in map(Path, wheel["packages"]):
        yield from files_below(REPOSITORY / package, package.name)
    for source, target in wheel["force-include"].items():
        yield from files_below(REPOSITORY / source, target)


def files_below(source: Path, target: str) -> Iterator[tuple[str, bytes]]:
    if source.is_file():
        yield target, source.read_bytes()
        return
    for path in source.rglob("*"):
        if path.is_file() and not set(path.relative_to(source).parts) & set(LEFT_OUT):
            yield f"{target}/{path.relative_to(source).as_posix()}", path.read_bytes()


def info_files(project: dict, version: str, info: str) -> dict[str, bytes]:
    about = project["project"]
    scripts = "".join(f"{name} = {where}\n" for name, where in about["scripts"].items())
    return {
        f"{info}/METADATA": metadata(about, version).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: gpufairy\nRoot-Is-Purelib: true\nTag: {TAG}\n".encode(),
        f"{info}/entry_points.txt": f"[console_scripts]\n{scripts}".encode(),
        **{f"{info}/licenses/{name}": (REPOSITORY / name).read_bytes() for name in about["license-files"]},
    }


def metadata(about: dict, version: str) -> str:
    extras = about.get("optional-dependencies", {})
    lines = [
        "Metadata-Version: 2.4", f"Name: {about['name']}", f"Version: {version}", f"Summary: {about['description']}",
        f"License-Expression: {about['license']}", *(f"License-File: {name}" for name in about["license-files"]),
        f"Requires-Python: {about['requires-python']}", *(f"Requires-Dist: {one}" for one in about["dependencies"]),
        *(f"Provides-Extra: {name}" for name in extras),
        *(f"Requires-Dist: {one}; extra == '{name}'" for name, needs in extras.items() for one in needs),
        "Description-Content-Type: text/markdown",
    ]  # fmt: skip
    return "\n".join(lines) + "\n\n" + (REPOSITORY / about["readme"]).read_text()


def version_of(project: dict) -> str:
    text = (REPOSITORY / project["tool"]["hatch"]["version"]["path"]).read_text()
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise SystemExit("src/gpufairy/__init__.py says no version")
    return found[1]


def digest(body: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode().rstrip("=")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--out", type=Path, default=REPOSITORY / "dist", help="the folder to put it in")
    sys.stdout.write(f"{build(asked.parse_args().out)}\n")


if __name__ == "__main__":
    main()
