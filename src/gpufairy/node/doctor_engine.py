"""What the doctor finds of containers: Docker or Podman, runc, NVIDIA's toolkit, CDI files, cgroups."""
import gzip
import http.client
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpufairy.core.doctor_facts import EngineFacts
from gpufairy.engines.cdi import USUAL_FOLDERS, offered_devices
from gpufairy.engines.cdi_refresh import names_gpus
from gpufairy.node.doctor_ask import found_program, said, socket_json
from gpufairy.node.host_files import names_in, read_text

CVE = re.compile(r"CVE-[0-9]{4}-[0-9]{4,7}")
VERSION = re.compile(r"[0-9]+\.[0-9]+[0-9A-Za-z.+~-]*")
LARGEST_CHANGELOG = 4 * 2**20  # bytes, unpacked
CHANGELOGS = "usr/share/doc/{package}/changelog.Debian.gz"


def engine_facts(sockets: Sequence[str], root: Path = Path("/"), cdi_folders: Sequence[Path] = USUAL_FOLDERS) -> EngineFacts:
    version, controllers = cgroups(root)
    name, socket, trouble, info, told = asked_engine(sockets)
    runc = runc_version(told)
    files = tuple(str(path) for folder in cdi_folders for path in sorted(folder.glob("*")) if names_gpus(path))
    return EngineFacts(
        name=name,
        socket=socket,
        trouble=trouble,
        version=str(told.get("Version", "")),
        cgroup_driver=str(info.get("CgroupDriver", "")),
        live_restore=info.get("LiveRestoreEnabled"),
        cdi_on=bool(info.get("CDISpecDirs")) if name == "docker" else None,
        runc=runc,
        runc_mended=mended("runc", root) if runc else frozenset(),
        toolkit=toolkit_version(),
        cdi_names=offered_devices(cdi_folders),
        cdi_files=files,
        cgroups=version,
        controllers=controllers,
        nft=found_program("nft") is not None,
    )


def asked_engine(sockets: Sequence[str]) -> tuple[str, str, str, dict[str, Any], dict[str, Any]]:
    """Its name, its socket, why not, and what it tells of itself and its parts."""
    trouble = ""
    for path in sockets:
        try:
            told, info = socket_json(path, "/version"), socket_json(path, "/info")
        except PermissionError as error:
            trouble = f"{path}: {error.strerror}"
            continue
        except (OSError, http.client.HTTPException, ValueError):
            continue
        podman = any("podman" in str(part.get("Name", "")).lower() for part in told.get("Components") or ())
        return "podman" if podman else "docker", path, "", info, told
    return "", "", trouble, {}, {}


def runc_version(told: dict[str, Any]) -> str | None:
    """As the engine tells it, else by itself. Empty: there is none."""
    for part in told.get("Components") or ():
        if isinstance(part, dict) and str(part.get("Name")) == "runc":
            return str(part.get("Version", ""))
    if found_program("runc") is None:
        return ""
    answer = said("runc", "--version")
    found = None if answer is None else VERSION.search(answer.out)
    return None if found is None else found[0]


def toolkit_version() -> str | None:
    if found_program("nvidia-ctk") is None:
        return ""
    answer = said("nvidia-ctk", "--version")
    found = None if answer is None else VERSION.search(answer.out)
    return None if found is None else found[0]


def mended(program: str, root: Path) -> frozenset[str]:
    """Holes that the changelog of its package names: distributions mend them and leave the number as it is."""
    path = found_program(program)
    if path is None:
        return frozenset()
    owner = said("dpkg-query", "-S", path)
    if owner is not None and owner.code == 0:
        package = owner.out.partition(":")[0].strip()
        return frozenset(CVE.findall(unpacked(root / CHANGELOGS.format(package=package))))
    changelog = said("rpm", "-q", "--changelog", "-f", path)
    return frozenset() if changelog is None or changelog.code != 0 else frozenset(CVE.findall(changelog.out))


def unpacked(path: Path) -> str:
    try:
        with gzip.open(path, "rb") as file:
            return file.read(LARGEST_CHANGELOG).decode(errors="replace")
    except (OSError, EOFError, zlib.error):
        return ""


def cgroups(root: Path) -> tuple[int | None, frozenset[str] | None]:
    top = root / "sys/fs/cgroup"
    controllers = read_text(str(top / "cgroup.controllers"))
    if controllers or (top / "cgroup.controllers").exists():
        return 2, frozenset(controllers.split()) if controllers.strip() else None
    if not top.is_dir():
        return None, None
    rows = [line.split() for line in read_text(str(root / "proc/cgroups")).splitlines() if not line.startswith("#")]
    named = frozenset(row[0] for row in rows if len(row) == 4 and row[3] == "1")
    mounted = frozenset(part for name in names_in(str(top)) for part in name.split(","))
    return 1, (named & mounted) or None
