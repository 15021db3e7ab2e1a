"""Which distribution this is, and the lines that install something on it. On one that is not known: words in place of lines."""
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Family(StrEnum):
    DEBIAN = "debian"
    UBUNTU = "ubuntu"
    RHEL = "rhel"
    FEDORA = "fedora"
    SUSE = "suse"
    ARCH = "arch"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Os:
    family: Family = Family.OTHER
    name: str = "this system"
    version: str = ""
    root: bool = False  # whoever types the lines is root, and needs no sudo

    def run(self, *lines: str) -> tuple[str, ...]:
        return lines if self.root else tuple(line if line.startswith("#") else f"sudo {line}" for line in lines)


LONGEST_LINE = 1000  # of os-release
FAMILIES = {
    "ubuntu": Family.UBUNTU, "debian": Family.DEBIAN, "fedora": Family.FEDORA, "rhel": Family.RHEL, "centos": Family.RHEL,
    "rocky": Family.RHEL, "almalinux": Family.RHEL, "suse": Family.SUSE, "opensuse": Family.SUSE, "sles": Family.SUSE, "arch": Family.ARCH,
}  # fmt: skip


def parse_os_release(text: str, *, root: bool = False) -> Os:
    told: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line[:LONGEST_LINE].strip().partition("=")
        if equals and not name.startswith("#"):
            told[name] = value.strip().strip("\"'")
    ids = [told.get("ID", ""), *told.get("ID_LIKE", "").split()]
    family = next((FAMILIES[one] for one in (part.partition("-")[0] for part in ids) if one in FAMILIES), Family.OTHER)
    return Os(family, told.get("PRETTY_NAME") or told.get("NAME") or "this system", told.get("VERSION_ID", ""), root)


INSTALL: Mapping[Family, str] = {
    Family.DEBIAN: "apt-get install -y", Family.UBUNTU: "apt-get install -y", Family.RHEL: "dnf install -y",
    Family.FEDORA: "dnf install -y", Family.SUSE: "zypper install -y", Family.ARCH: "pacman -S --needed --noconfirm",
}  # fmt: skip


def install(os: Os, *packages: str, words: str = "", **other: str) -> tuple[str, ...]:
    """`other`: what they are called on one family, where that is another name. `words`: what it is, where nobody knows the packages."""
    if os.family is Family.OTHER:
        return (f"Install {words or ' and '.join(packages)} with the package tool of {os.name}.",)
    return os.run(f"{INSTALL[os.family]} {other.get(os.family.value, ' '.join(packages))}")


# Native parts are linked statically: what they take of libc is a package of its own on some.
STATIC_LIBC = {
    "debian": "libc6-dev", "ubuntu": "libc6-dev", "rhel": "glibc-static", "fedora": "glibc-static", "suse": "glibc-devel-static",
    "arch": "glibc",
}  # fmt: skip
CRB = "# glibc-static is in the repository CRB, on RHEL itself CodeReady Builder: switch that on first"


def install_compiler(os: Os) -> tuple[str, ...]:
    """For the native parts."""
    lines = install(os, words="a C compiler and the static libc", **{family: f"gcc {libc}" for family, libc in STATIC_LIBC.items()})
    return (CRB, *lines) if os.family is Family.RHEL else lines


KEYRING = "/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg"
TOOLKIT_SITE = "https://nvidia.github.io/libnvidia-container"


def install_toolkit(os: Os) -> tuple[str, ...]:
    """As NVIDIA's own guide has it: the packages of the distributions are old, or there are none."""
    sudo = "" if os.root else "sudo "
    repo = f"{TOOLKIT_SITE}/stable/rpm/nvidia-container-toolkit.repo"
    lines = {
        Family.DEBIAN: (
            f"curl -fsSL {TOOLKIT_SITE}/gpgkey | {sudo}gpg --dearmor --yes -o {KEYRING}",
            f"curl -fsSL {TOOLKIT_SITE}/stable/deb/nvidia-container-toolkit.list | sed "
            f"'s#deb https://#deb [signed-by={KEYRING}] https://#' | {sudo}tee /etc/apt/sources.list.d/nvidia-container-toolkit.list",
            f"{sudo}apt-get update",
            f"{sudo}apt-get install -y nvidia-container-toolkit",
        ),
        Family.RHEL: (
            f"curl -fsSL {repo} | {sudo}tee /etc/yum.repos.d/nvidia-container-toolkit.repo",
            f"{sudo}dnf install -y nvidia-container-toolkit",
        ),
        Family.SUSE: (
            f"{sudo}zypper addrepo --refresh {repo}",
            f"{sudo}zypper --gpg-auto-import-keys install -y nvidia-container-toolkit",
        ),
        Family.ARCH: (f"{sudo}pacman -Syu --needed nvidia-container-toolkit",),
    }  # fmt: skip
    lines[Family.UBUNTU], lines[Family.FEDORA] = lines[Family.DEBIAN], lines[Family.RHEL]
    guide = (
        "Install the NVIDIA Container Toolkit: https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
    )
    return lines.get(os.family, (guide,))


def install_driver(os: Os) -> tuple[str, ...]:
    major = os.version.partition(".")[0] or "9"
    repo = f"https://developer.download.nvidia.com/compute/cuda/repos/rhel{major}/x86_64/cuda-rhel{major}.repo"
    fusion = "https://mirrors.rpmfusion.org/nonfree/fedora/rpmfusion-nonfree-release-$(rpm -E %fedora).noarch.rpm"
    lines = {
        Family.UBUNTU: ("apt-get install -y ubuntu-drivers-common", "ubuntu-drivers install --gpgpu"),
        Family.DEBIAN: ("apt-get install -y linux-headers-amd64 nvidia-driver",),
        Family.RHEL: (f"dnf config-manager --add-repo {repo}", "dnf install -y nvidia-open"),
        Family.FEDORA: (f"dnf install -y {fusion}", "dnf install -y akmod-nvidia xorg-x11-drv-nvidia-cuda"),
        Family.SUSE: ("zypper install -y nvidia-open-driver-G06-signed-kmp-default nvidia-compute-utils-G06",),
        Family.ARCH: ("pacman -S --needed nvidia-open nvidia-utils",),
    }
    if os.family not in lines:
        return ("Install NVIDIA's driver: https://www.nvidia.com/drivers", "Then reboot.")
    return os.run(*lines[os.family], "reboot")


def install_engine(os: Os) -> tuple[str, ...]:
    """What the distribution itself has: on RHEL and its kin that is Podman."""
    if os.family is Family.OTHER:
        return ("Install Docker Engine: https://docs.docker.com/engine/install/",)
    if os.family is Family.RHEL:
        return os.run("dnf install -y podman", "systemctl enable --now podman.socket")
    packages = {Family.DEBIAN: "docker.io", Family.UBUNTU: "docker.io", Family.FEDORA: "moby-engine"}
    return os.run(f"{INSTALL[os.family]} {packages.get(os.family, 'docker')}", "systemctl enable --now docker")


def upgrade(os: Os, *packages: str) -> tuple[str, ...]:
    """Those of them that are installed; the others stay away."""
    names = " ".join(packages)
    lines = {
        Family.DEBIAN: ("apt-get update", f"apt-get install --only-upgrade -y {names}"), Family.RHEL: (f"dnf upgrade -y {names}",),
        Family.SUSE: ("zypper refresh", f"zypper update -y {names}"), Family.ARCH: ("pacman -Syu",),
    }  # fmt: skip
    lines[Family.UBUNTU], lines[Family.FEDORA] = lines[Family.DEBIAN], lines[Family.RHEL]
    if os.family not in lines:
        return (f"Bring {' or '.join(packages)} up to date with the package tool of {os.name}.",)
    return os.run(*lines[os.family])


def write_file(os: Os, path: str, text: str) -> str:
    """One line that writes another."""
    return f"echo '{text}' > {path}" if os.root else f"echo '{text}' | sudo tee {path}"
