"""Names of images taken apart as registries do: which host has it, in which repository, and which one of those there is meant."""
from dataclasses import dataclass

USUAL_HOST = "docker.io"


@dataclass(frozen=True, slots=True)
class Reference:
    host: str
    repository: str
    tag: str = ""
    digest: str = ""  # as sha256:…; it goes before the tag

    @property
    def version(self) -> str:
        """As the registry is asked for it."""
        return self.digest or self.tag or "latest"

    def __str__(self) -> str:
        tag, digest = f":{self.tag}" if self.tag else "", f"@{self.digest}" if self.digest else ""
        return f"{self.host}/{self.repository}{tag}{digest}"


def reference_of(name: str) -> Reference:
    """Of a name as people write it. It is taken apart, and not checked: image_name() does that."""
    rest, _, digest = name.partition("@")
    first, slash, below = rest.partition("/")
    has_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    host, path = (first, below) if has_host else (USUAL_HOST, rest)
    last = path.rpartition("/")[2]
    tag = last.partition(":")[2]
    repository = path.removesuffix(f":{tag}") if tag else path
    if host == USUAL_HOST and "/" not in repository:
        repository = f"library/{repository}"
    return Reference(host, repository, tag, digest)


def full_name(name: str) -> str:
    """With the registry that is meant when none is written: some runtimes look through a list of their own for a short name."""
    found = reference_of(name)
    return str(found) if found.tag or found.digest else f"{found}:latest"
