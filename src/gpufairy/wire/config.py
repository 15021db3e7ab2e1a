"""fairy.toml: every setting, its default and what it is for. Unknown names are refused with the nearest right one."""
import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import Field

from gpufairy.core.amounts import parse_cpus, parse_duration, parse_size
from gpufairy.core.cluster import Policy
from gpufairy.core.errors import BadInput
from gpufairy.core.share import PARTS
from gpufairy.wire.read import Strict, read
from gpufairy.wire.submit import SubmitBody

LARGEST_FILE = 1 << 20


class ServerConfig(Strict):
    listen: str = "127.0.0.1"  # 0.0.0.0 lets other machines in
    port: int | None = None  # 8420, and the next free one if that is taken
    url: str | None = None  # how sessions and people reach the server, if not http://LISTEN:PORT
    store: str | None = None  # postgresql://… ; None: SQLite in the data folder


class NodeConfig(Strict):
    """What this machine is said to have. Without a word, what it really has."""

    name: str | None = None
    cpus: str | int | float | None = None
    memory: str | int | None = None
    pool: str | None = None


class GpuConfig(Strict):
    simulate: str | None = None  # "4xA100-40GB,1xH200"
    fgpu_per_gpu: float | int = 1  # how many fGPU one GPU is


class PolicyConfig(Strict):
    half_life: str = "7d"  # recent use counts half after so long
    stop_grace: str = "10s"  # between asking a session to leave and killing it
    silent_after: str = "60s"  # a node without an answer for so long has its sessions marked LOST
    log_cap: str = "64MiB"  # per session; the middle of a longer log is cut
    keep_ended: str = "30d"  # logs and results of ended sessions are kept so long


class Config(Strict):
    server: ServerConfig = ServerConfig()
    node: NodeConfig = NodeConfig()
    gpus: GpuConfig = GpuConfig()
    policy: PolicyConfig = PolicyConfig()
    presets: Annotated[dict[str, SubmitBody], Field(max_length=100)] = {}  # noqa: RUF012 - frozen with the model

    def to_policy(self) -> Policy:
        return Policy(
            half_life=parse_duration(self.policy.half_life, "policy.half_life"),
            stop_grace=parse_duration(self.policy.stop_grace, "policy.stop_grace"),
            silent_after=parse_duration(self.policy.silent_after, "policy.silent_after"),
            keep_ended=parse_duration(self.policy.keep_ended, "policy.keep_ended"),
        )

    @property
    def log_cap_bytes(self) -> int:
        return parse_size(self.policy.log_cap, "policy.log_cap")

    @property
    def cpus_milli(self) -> int | None:
        return None if self.node.cpus is None else parse_cpus(str(self.node.cpus), "node.cpus")

    @property
    def memory_bytes(self) -> int | None:
        return None if self.node.memory is None else parse_size(str(self.node.memory), "node.memory")

    @property
    def fgpu_parts(self) -> int:
        if not 0.01 <= self.gpus.fgpu_per_gpu <= 1000:
            found = f"gpus.fgpu_per_gpu: {self.gpus.fgpu_per_gpu} is not between 0.01 and 1000"
            raise BadInput(found, "Write how many fGPU one GPU is, such as 5.")
        return int(self.gpus.fgpu_per_gpu * PARTS)


def load_config(path: Path | None) -> Config:
    if path is None:
        return Config()
    try:
        text = path.read_bytes()[: LARGEST_FILE + 1].decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"settings file {path} cannot be read: {error}", "Give the path of a fairy.toml.") from None
    if len(text) > LARGEST_FILE:
        raise BadInput(f"settings file {path} is larger than 1 MiB", "Is it the right file?")
    try:
        return read(Config, tomllib.loads(text), str(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(f"settings file {path}: {error}", "Mend that line; docs/settings.md shows every setting.") from None
