"""fairy.toml: every setting, its default and what it is for. Unknown names are refused with the nearest right one."""
import tomllib
from datetime import time, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import Field

from gpufairy.core.amounts import parse_cpus, parse_duration, parse_size
from gpufairy.core.booking_choice import Limits
from gpufairy.core.cluster import Policy
from gpufairy.core.errors import BadInput
from gpufairy.core.image import ImageRules, image_name
from gpufairy.core.insight import Pace
from gpufairy.core.preempt import Preempt
from gpufairy.core.reclaim import Ladder, Ladders
from gpufairy.core.selftest_due import parse_nightly
from gpufairy.wire.alerts import AlertsConfig, ChannelConfig
from gpufairy.wire.disk import DiskConfig
from gpufairy.wire.kubernetes_config import KubernetesConfig
from gpufairy.wire.leaks import LeaksConfig
from gpufairy.wire.limits import LimitsConfig
from gpufairy.wire.oidc import OidcConfig
from gpufairy.wire.read import Strict, read
from gpufairy.wire.shares import parts_of_fgpu
from gpufairy.wire.submit import SubmitBody
from gpufairy.wire.tariff import TariffConfig
from gpufairy.wire.upkeep import BackupConfig, DoctorConfig, KeepConfig

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
    fgpu_per_gpu: float | int = 1  # how many fGPU one GPU is; `fairy share` says it for a kind or a single GPU
    exclusive: bool = True  # while a GPU is shared by MPS, its compute mode lets no program use it that goes round MPS
    mig: str = "fixed"  # "auto": GPUs in MIG mode are cut anew, where nobody is, for what waits in the queue


class PolicyConfig(Strict):
    half_life: str = "7d"  # recent use counts half after so long
    entry_penalty: str = "1m"  # a start is charged for at least so long; "off": for what it held alone
    stop_grace: str = "10s"  # between asking a session to leave and killing it
    silent_after: str = "60s"  # a node without an answer for so long has its sessions marked LOST
    log_cap: str = "64MiB"  # per session; the middle of a longer log is cut
    keep_ended: str = "30d"  # logs and results of ended sessions are kept so long
    over_share: str = "30s"  # a session with more GPU memory than its share is told, and stopped so long after; "off": only told
    preempt: str = "marked"  # who makes room for the first in line: "marked" as preemptible; "lower": lower priorities too; "off": nobody
    preempt_after: str = "10m"  # nobody who has run for less
    preempt_notice: str = "30s"  # between being told and being asked to leave


class SshConfig(Strict):
    """The SSH gateway, by which people come into their sessions."""

    enabled: bool = True
    listen: str | None = None  # as server.listen
    port: int | None = None  # 8422, and the next free one if that is taken
    preset: str | None = None  # what is started for somebody who has no session; None: as `fairy start` without options


class DockerConfig(Strict):
    """Sessions in containers, on Docker Engine or on Podman's Docker API."""

    socket: str | None = None  # /path/docker.sock; None: where Docker and Podman usually have theirs
    network: str = "open"  # "open": out to the world, not to the host or other sessions; "none": nowhere
    most_processes: int = 4096  # in one session
    open_files: int = 65536  # of one process
    homes: str | None = None  # where users' homes lie; None: in the data folder
    shared: str | None = None  # /shared in every session, read-only; None: in the data folder


class ImagesConfig(Strict):
    """Which images sessions may use. Patterns as in a shell: `pytorch/*`."""

    default: str = "ubuntu:24.04"
    allow: Annotated[list[str], Field(max_length=1000)] = ["*"]  # noqa: RUF012 - frozen with the model, as are the next
    allow_for: Annotated[dict[str, list[str]], Field(max_length=1000)] = {}  # noqa: RUF012 - more for a user, or a team: "team:nlp"
    root: Annotated[list[str], Field(max_length=1000)] = []  # noqa: RUF012 - in these the user is root, inside the container
    pull: bool = True  # fetch an image that is not on the machine
    commit: str = "approve"  # images made from sessions: an admin says who else may use them; "free": all may; "off": none are made
    commit_quota: str = "50GiB"  # of images that one user has made


class FolderConfig(Strict):
    """A folder of the host that sessions may mount by its name, at /mnt/NAME."""

    path: str
    write: bool = False


class AppsConfig(Strict):
    """Jupyter and other pages of sessions, each at an origin of its own."""

    domain: str | None = None  # NAME-USER.DOMAIN, to which *.DOMAIN must lead; None: a port for each app
    port: int = 8423  # with a domain, for all of them
    ports: str = "8430-8479"  # without one


class WatchConfig(Strict):
    """Hosts that agents report of, and whose processes outside sessions are."""

    name_rules: Annotated[list[str], Field(max_length=50)] = []  # noqa: RUF012 - of containers that people start by hand: ["USER_*"]
    user_labels: Annotated[list[str], Field(max_length=50)] = ["user", "owner"]  # noqa: RUF012 - labels of theirs that name the user
    users: Annotated[list[str], Field(max_length=10_000)] = []  # noqa: RUF012 - only these are found by a rule or label; none: any name
    sample_every: str = "1s"  # how often the GPUs of this host are read
    kubernetes: str = "auto"  # names of pods: as a pod of the cluster, or by KUBECONFIG; "off"; or the path of a kubeconfig
    kubernetes_node: str | None = None  # what the cluster calls this host; None: NODE_NAME, or the host's name
    kubelet: str = "/var/lib/kubelet"  # its root folder
    session_namespaces: Annotated[list[str], Field(max_length=1_000)] = []  # noqa: RUF012 - pods there with our labels are sessions


class SelftestConfig(Strict):
    """What really holds sessions to their shares of a GPU is tried, not believed."""

    nightly: str = "03:00"  # when idle GPUs are tested each night, by the clock of this machine; "off": only new ones, and when asked


class BookingsConfig(Strict):
    """GPUs that people have for themselves for a time that was said before."""

    users: bool = True  # false: admins alone make bookings
    most_gpus: int = 4  # that one user may have booked for the same time
    most_ahead: str = "30d"  # how far ahead users may book
    longest: str = "7d"  # that a user's booking may be
    longest_by_admin: str = "30d"  # the same of admins, who are bound by nothing else


class TeamReclaimConfig(Strict):
    """What is different for one team; what is not said is as for all."""

    idle_after: str | None = None
    grace: str | None = None
    lend: bool | None = None
    shrink: bool | None = None
    stop: bool | None = None


class ReclaimConfig(Strict):
    """What becomes of sessions that hold GPUs and do not use them, step by step."""

    idle_after: str = "1h"  # idle for so long: warned; "off": nothing is ever asked back
    grace: str = "30m"  # between two steps
    lend: bool = True  # preemptible sessions may use its GPUs until it does
    shrink: bool = False  # it keeps half of them, where nothing holds it to its share
    stop: bool = False  # it is kept as an image and stopped; `fairy resume` starts it again
    teams: Annotated[dict[str, TeamReclaimConfig], Field(max_length=1000)] = {}  # noqa: RUF012 - frozen with the model

    def to_ladders(self) -> Ladders:
        teams = {name: self._ladder(team, f"reclaim.teams.{name}") for name, team in self.teams.items()}
        return Ladders(self._ladder(TeamReclaimConfig(), "reclaim"), teams)

    def _ladder(self, team: TeamReclaimConfig, where: str) -> Ladder:
        said = team.model_dump(exclude_none=True)
        chosen = ReclaimConfig.model_validate({**self.model_dump(exclude={"teams"}), **said})
        idle_after = None if chosen.idle_after == "off" else parse_duration(chosen.idle_after, f"{where}.idle_after")
        return Ladder(idle_after, parse_duration(chosen.grace, f"{where}.grace"), chosen.lend, chosen.shrink, chosen.stop)


class AdviceConfig(Strict):
    """What users are told about how their sessions use what they hold."""

    window: str = "30m"  # how long a session is looked at before anything is said of it; "off": nothing is ever said

    def to_pace(self) -> Pace | None:
        if self.window == "off":
            return None
        window = parse_duration(self.window, "advice.window")
        if not timedelta(minutes=1) <= window <= timedelta(hours=4):
            next_step = "30m is usual; a shorter one says more, and errs more."
            raise BadInput(f"advice.window: {self.window} is not between 1m and 4h", next_step)
        return Pace(window)


class Config(Strict):
    server: ServerConfig = ServerConfig()
    ssh: SshConfig = SshConfig()
    docker: DockerConfig = DockerConfig()
    kubernetes: KubernetesConfig = KubernetesConfig()
    images: ImagesConfig = ImagesConfig()
    folders: Annotated[dict[str, FolderConfig], Field(max_length=100)] = {}  # noqa: RUF012
    apps: AppsConfig = AppsConfig()
    node: NodeConfig = NodeConfig()
    gpus: GpuConfig = GpuConfig()
    policy: PolicyConfig = PolicyConfig()
    watch: WatchConfig = WatchConfig()
    selftest: SelftestConfig = SelftestConfig()
    reclaim: ReclaimConfig = ReclaimConfig()
    bookings: BookingsConfig = BookingsConfig()
    advice: AdviceConfig = AdviceConfig()
    disk: DiskConfig = DiskConfig()
    oidc: OidcConfig = OidcConfig()
    tariff: TariffConfig = TariffConfig()
    alerts: AlertsConfig = AlertsConfig()
    leaks: LeaksConfig = LeaksConfig()
    limits: LimitsConfig = LimitsConfig()
    backup: BackupConfig = BackupConfig()
    keep: KeepConfig = KeepConfig()
    doctor: DoctorConfig = DoctorConfig()
    channels: Annotated[list[ChannelConfig], Field(max_length=50)] = []  # noqa: RUF012
    presets: Annotated[dict[str, SubmitBody], Field(max_length=100)] = {}  # noqa: RUF012 - frozen with the model

    def to_policy(self) -> Policy:
        return Policy(
            half_life=parse_duration(self.policy.half_life, "policy.half_life"),
            entry_penalty=self.entry_penalty,
            stop_grace=parse_duration(self.policy.stop_grace, "policy.stop_grace"),
            silent_after=parse_duration(self.policy.silent_after, "policy.silent_after"),
            keep_ended=parse_duration(self.policy.keep_ended, "policy.keep_ended"),
            most_queued=self.limits.queued_per_user,
            preempt=self.preempt,
            preempt_after=parse_duration(self.policy.preempt_after, "policy.preempt_after"),
            preempt_notice=parse_duration(self.policy.preempt_notice, "policy.preempt_notice"),
        )

    def to_image_rules(self) -> ImageRules:
        images = self.images
        if images.commit not in ("approve", "free", "off"):
            raise BadInput(f"images.commit: found {images.commit[:40]!r}", "Write approve, free or off.")
        return ImageRules(
            image_name(images.default, "images.default"), tuple(images.allow), tuple(images.root), images.pull, images.commit,
            parse_size(images.commit_quota, "images.commit_quota"),
            {who: tuple(patterns) for who, patterns in images.allow_for.items()},
        )  # fmt: skip

    def default_session(self) -> SubmitBody:
        """What is started for somebody who comes by SSH and has no session."""
        if self.ssh.preset is None:
            return SubmitBody()
        if self.ssh.preset not in self.presets:
            offered = ", ".join(sorted(self.presets)) or "none"
            raise BadInput(f"ssh.preset: no preset {self.ssh.preset[:40]!r}", f"Presets set here: {offered}.")
        return self.presets[self.ssh.preset]

    def to_booking_limits(self) -> Limits:
        bookings = self.bookings
        if bookings.most_gpus < 1:
            raise BadInput(f"bookings.most_gpus: {bookings.most_gpus} is no number of GPUs", "With users = false only admins book.")
        return Limits(
            bookings.users, bookings.most_gpus, parse_duration(bookings.most_ahead, "bookings.most_ahead"),
            parse_duration(bookings.longest, "bookings.longest"), parse_duration(bookings.longest_by_admin, "bookings.longest_by_admin"),
        )  # fmt: skip

    @property
    def preempt(self) -> Preempt:
        if self.policy.preempt not in set(Preempt):
            raise BadInput(f"policy.preempt: found {self.policy.preempt[:40]!r}", f"Write {', '.join(Preempt)}.")
        return Preempt(self.policy.preempt)

    @property
    def nightly_selftest(self) -> time | None:
        return parse_nightly(self.selftest.nightly)

    @property
    def log_cap_bytes(self) -> int:
        return parse_size(self.policy.log_cap, "policy.log_cap")

    @property
    def entry_penalty(self) -> timedelta:
        return timedelta() if self.policy.entry_penalty == "off" else parse_duration(self.policy.entry_penalty, "policy.entry_penalty")

    @property
    def over_share_grace(self) -> timedelta | None:
        return None if self.policy.over_share == "off" else parse_duration(self.policy.over_share, "policy.over_share")

    @property
    def cpus_milli(self) -> int | None:
        return None if self.node.cpus is None else parse_cpus(str(self.node.cpus), "node.cpus")

    @property
    def memory_bytes(self) -> int | None:
        return None if self.node.memory is None else parse_size(str(self.node.memory), "node.memory")

    @property
    def sample_every_s(self) -> float:
        every_s = parse_duration(self.watch.sample_every, "watch.sample_every").total_seconds()
        if not 0.2 <= every_s <= 60:
            raise BadInput(f"watch.sample_every: {self.watch.sample_every} is not between 0.2s and 60s", "1s is usual; 5s costs less.")
        return every_s

    @property
    def mig_auto(self) -> bool:
        if self.gpus.mig not in ("fixed", "auto"):
            raise BadInput(f"gpus.mig: found {self.gpus.mig[:40]!r}", "Write fixed, or auto.")
        return self.gpus.mig == "auto"

    @property
    def fgpu_parts(self) -> int:
        return parts_of_fgpu(self.gpus.fgpu_per_gpu, "gpus.fgpu_per_gpu")


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
