"""README and addresses as the package index shows them: no link there leads to a file of this repository.

Where the repository can be read by everybody stands in pyproject.toml (`[tool.gpufairy] repository`). Links lead there, to the
tag of this version; as long as it is empty they become plain words with the file's name, and pictures their description.
"""
import re
import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

IMAGE = re.compile(r"!\[(?P<words>[^\]]*)\]\((?P<path>[^)\s]+)\)")
LINK = re.compile(r"(?<!!)\[(?P<words>[^\]]*)\]\((?P<path>[^)\s]+)\)")
ELSEWHERE = ("http://", "https://", "mailto:", "#")


class Readme(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        project = tomllib.loads((Path(self.root) / "pyproject.toml").read_text())
        repository = project["tool"]["gpufairy"]["repository"].rstrip("/")
        text = (Path(self.root) / "README.md").read_text()
        metadata["readme"] = {"content-type": "text/markdown", "text": outside(text, repository, version_of(self.root, project))}
        metadata["urls"] = addresses(repository)


def addresses(repository: str) -> dict[str, str]:
    if not repository:
        return {}
    return {
        "Source": repository, "Documentation": f"{repository}/blob/HEAD/docs/index.md",
        "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md", "Issues": f"{repository}/issues",
    }  # fmt: skip


def outside(text: str, repository: str, version: str) -> str:
    text = IMAGE.sub(lambda found: picture(found["words"], found["path"], repository, version), text)
    return LINK.sub(lambda found: link(found["words"], found["path"], repository, version), text)


def picture(words: str, path: str, repository: str, version: str) -> str:
    if path.startswith(ELSEWHERE):
        return f"![{words}]({path})"
    return f"![{words}]({repository}/raw/v{version}/{path})" if repository else f"*(picture: {words})*"


def link(words: str, path: str, repository: str, version: str) -> str:
    if path.startswith(ELSEWHERE):
        return f"[{words}]({path})"
    if repository:
        return f"[{words}]({repository}/blob/v{version}/{path})"
    file = path.partition("#")[0]
    return words if words == file else f"{words} (`{file}`)"


def version_of(root: str, project: dict[str, Any]) -> str:
    found = re.search(r'^__version__ = "([^"]+)"', (Path(root) / project["tool"]["hatch"]["version"]["path"]).read_text(), re.MULTILINE)
    return found[1] if found else "0"
