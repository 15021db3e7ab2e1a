"""A session's container made into an image: what was installed, without what we or its owner put around it."""
import asyncio
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from typing import Any

from gpufairy.core import failpoints
from gpufairy.core.errors import EngineRefused
from gpufairy.engines.docker_daemon import NOT_FOUND, WORK_S, Daemon
from gpufairy.engines.docker_images import environment

SETTINGS = ("Env", "Entrypoint", "Cmd", "User", "WorkingDir", "Labels", "ExposedPorts", "Volumes", "Shell")  # what a Dockerfile sets
COMMIT_S = 3600.0  # tens of gigabytes are written meanwhile


async def commit(daemon: Daemon, container: Mapping[str, Any], image: Mapping[str, Any], name: str) -> None:
    """`container` and `image` as inspected. The home, /results, /shared and the token are mounts, and so are never in it."""
    what, config = f"making image {name}", image_config(container, image)
    repository, tag = split_name(name)
    # Without a name until it is clean: Docker up to version 25 keeps all of the container's variables in a corner of the image.
    async with daemon.asked(what, within_s=COMMIT_S):
        made = await daemon.docker.containers.container(str(container["Id"])).commit(
            repository=repository if daemon.podman else None, tag=tag if daemon.podman else None,
            pause=True, config=config, changes=changes(config) if daemon.podman else None,
        )  # fmt: skip
    made_id = str(made.get("Id") or "")
    if not made_id:
        raise EngineRefused(f"{what}: the container engine did not say what it made", "See `fairy image list`.")
    failpoints.passing("after_container_commit_before_name")
    if not daemon.podman:
        await named_clean(daemon, made_id, name, image)


async def named_clean(daemon: Daemon, made_id: str, name: str, image: Mapping[str, Any]) -> None:
    what, (repository, tag) = f"making image {name}", split_name(name)
    async with daemon.asked(what):
        made = await daemon.docker.images.inspect(made_id)
    if not (made.get("ContainerConfig") or {}).get("Env"):
        async with daemon.asked(what):
            await daemon.docker.images.tag(made_id, repository, tag=tag)
        return
    archive = await asyncio.to_thread(bare_archive, name, made, image)
    try:
        async with daemon.asked(what, within_s=WORK_S):
            await daemon.docker.images.import_image(archive)
    finally:
        async with daemon.asked(what, within_s=WORK_S, fine=(NOT_FOUND,)):
            await daemon.docker.images.delete(made_id, noprune=True)


def bare_archive(name: str, made: Mapping[str, Any], image: Mapping[str, Any]) -> bytes:
    """The same layers under settings as the image had before. The layers themselves are on the machine, so they need not be in it."""
    layers = made["RootFS"]["Layers"]
    was = image.get("Config") or {}
    kept = {key: was[key] for key in SETTINGS if was.get(key)}
    told = [{"created": made["Created"], "created_by": "fairy commit" if layer == layers[-1] else ""} for layer in layers]
    config = {
        "architecture": made["Architecture"], "os": made["Os"], "created": made["Created"], "config": kept,
        "rootfs": {"type": "layers", "diff_ids": layers}, "history": told,
    }  # fmt: skip
    body = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(body).hexdigest()}.json"
    places = [f"{number}/layer.tar" for number, _ in enumerate(layers)]
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": places}]).encode()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path, content in ((config_name, body), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def split_name(name: str) -> tuple[str, str]:
    repository, _, tag = name.rpartition(":")
    return (repository, tag) if repository and "/" not in tag else (name, "latest")


def image_config(container: Mapping[str, Any], image: Mapping[str, Any]) -> dict[str, Any]:
    """As the image was before. A daemon adds what the container has and this has not, so all of ours is named here, and empty."""
    was, ours = image.get("Config") or {}, container.get("Config") or {}
    before = environment(image)
    blank = {name: "" for name in ours.get("Labels") or {} if name.startswith("gpufairy.")}
    return {
        "Env": [f"{name}={before.get(name, '')}" for name in {**before, **environment(container)}],
        "Labels": {**blank, **(was.get("Labels") or {})},
        "Entrypoint": was.get("Entrypoint") or [],
        "Cmd": was.get("Cmd") or [],
        "User": was.get("User") or "0",
        "WorkingDir": was.get("WorkingDir") or "/",
    }


def changes(config: Mapping[str, Any]) -> list[str]:
    """The same as lines of a Dockerfile, which is all that Podman heeds."""
    variables = (variable.partition("=")[::2] for variable in config["Env"])
    return [
        *(f"ENV {name}={quoted(value)}" for name, value in variables if "\n" not in value),
        *(f"LABEL {name}={quoted(value)}" for name, value in config["Labels"].items() if "\n" not in value),
        f"ENTRYPOINT {words(config['Entrypoint'])}",
        f"CMD {words(config['Cmd'])}",
        f"USER {config['User']}",
        f"WORKDIR {config['WorkingDir']}",
    ]


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'


def words(listed: Any) -> str:
    return "[" + ", ".join(quoted(str(word)) for word in listed) + "]"
