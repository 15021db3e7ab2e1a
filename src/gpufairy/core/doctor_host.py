"""What the doctor says of the machine and the data folder: pure judgements of what was found."""
from datetime import timedelta

from gpufairy.core.amounts import show_duration, show_size
from gpufairy.core.doctor import Judged, bad, ok, skipped, unknown, warn
from gpufairy.core.doctor_facts import Base, Facts, PortFact, PortState
from gpufairy.core.doctor_os import Family, install, install_compiler

GIB = 2**30
PYTHONS = ((3, 11), (3, 14))
CROWDED, FULL = 0.10, 0.02  # part of a disk that is free
FEW_BYTES, LEAST_BYTES, TOO_FEW_BYTES = 100 * GIB, 10 * GIB, GIB
FEW_INODES, NO_INODES = 0.05, 0.01
SKEWED, WRONG = timedelta(seconds=10), timedelta(minutes=5)  # from 5 min on, signatures and sign-ins by OpenID Connect fail
BACKUP_OLD = timedelta(days=3)
PROJECT_QUOTA = frozenset({"prjquota", "pquota"})


def python(facts: Facts) -> Judged:
    found = facts.host.python
    if found is None:
        return unknown("the version of Python is not known")
    words = f"Python {found[0]}.{found[1]}"
    if found < PYTHONS[0]:
        return bad(f"{words} is too old", *install(facts.os, "python3.12", debian="python3 python3-venv", arch="python", suse="python312"))
    return ok(words) if found <= PYTHONS[1] else warn(f"{words} is newer than what gpufairy was tried with")


def data_folder(facts: Facts) -> Judged:
    found = facts.data
    if found.there is None:
        return unknown(f"the data folder {found.folder} could not be looked at")
    if not found.there:
        if found.parent_writable is False:
            return bad(f"the data folder {found.folder} is not there, and cannot be made", "fairy up --data FOLDER")
        return ok(f"the data folder {found.folder} is made by the first `fairy up`")
    if found.owner is not None and facts.host.uid not in (None, 0, found.owner):
        return warn(
            f"the data folder {found.folder} belongs to another account ({found.owner})", f"sudo fairy doctor --data {found.folder}"
        )
    if found.mode is not None and found.mode & 0o007:
        mend = facts.os.run(f"chmod o-rwx {found.folder}") if facts.host.uid == 0 else (f"chmod o-rwx {found.folder}",)
        judged = bad if found.mode & 0o002 else warn
        return judged(f"the data folder {found.folder} is open to everybody on this machine (mode {found.mode:o})", *mend, fixable=True)
    return ok(f"the data folder {found.folder} is ours alone")


def secrets(facts: Facts) -> Judged:
    found = facts.data.open_files
    if found is None:
        return unknown("files with keys and tokens could not be looked at")
    if not found:
        return ok("keys and tokens are readable by their owner alone")
    return bad(f"others can read {found[0]}", *(f"chmod 600 {path}" for path in found[:20]), fixable=True)


def disk(facts: Facts) -> Judged:
    found = facts.data
    if found.free_bytes is None or not found.total_bytes:
        return unknown(f"how full the disk of {found.folder} is could not be learnt")
    words = f"{show_size(found.free_bytes)} of {show_size(found.total_bytes)} are free where {found.folder} lies"
    part = found.free_bytes / found.total_bytes
    advice = ("fairy image list", f"du -xh --max-depth=2 {found.folder} | sort -h | tail")
    if part < FULL or found.free_bytes < TOO_FEW_BYTES:
        return bad(words, *advice)
    is_crowded = part < CROWDED and found.free_bytes < FEW_BYTES
    return warn(words, *advice) if is_crowded or found.free_bytes < LEAST_BYTES else ok(words)


def inodes(facts: Facts) -> Judged:
    found = facts.data
    if found.free_inodes is None or found.total_inodes is None:
        return unknown(f"how many files can still be made in {found.folder} could not be learnt")
    if not found.total_inodes:
        return skipped(f"{found.file_system} makes inodes as it needs them")
    part = found.free_inodes / found.total_inodes
    words = f"{round(part * 100)} % of the inodes are free where {found.folder} lies"
    advice = f"du -x --inodes --max-depth=2 {found.folder} | sort -n | tail"
    return bad(words, advice) if part < NO_INODES else warn(words, advice) if part < FEW_INODES else ok(words)


def disk_quota(facts: Facts) -> Judged:
    found = facts.data
    if not found.file_system:
        return unknown("the file system of the homes is not known")
    if found.file_system not in ("xfs", "ext4"):
        return skipped(f"{found.file_system} has no project quotas: what users keep can be seen, not limited")
    if PROJECT_QUOTA & found.mount_options:
        return ok(f"{found.file_system} on {found.mount_point} has project quotas on")
    if found.kernel_quotas is False:  # one that was told to count could not be mounted by it any more
        return skipped(f"this kernel has no quotas for {found.file_system}: what users keep can be seen, not limited")
    unmounted = () if found.file_system == "xfs" else (f"# with {found.mount_point} unmounted: tune2fs -O project -Q prjquota DEVICE",)
    by_kernel = "for a root on xfs: rootflags=prjquota on the kernel's command line"
    note = f"# add prjquota to the options of {found.mount_point} in /etc/fstab ({by_kernel}), then reboot"
    return warn(
        f"{found.file_system} on {found.mount_point} could limit what each user keeps, and project quotas are off", *unmounted, note
    )


def clock(facts: Facts) -> Judged:
    found = facts.host
    service = "chrony" if facts.os.family in (Family.DEBIAN, Family.UBUNTU) else "chronyd"
    mend = (*install(facts.os, "chrony"), *facts.os.run(f"systemctl enable --now {service}"))
    if found.wrong_clocks:
        return bad(f"the clock of {found.wrong_clocks[0]} is wrong", f"# on {found.wrong_clocks[0].partition(' ')[0]}:", *mend)
    if found.clock_skew is not None and abs(found.clock_skew) > SKEWED:
        judged = bad if abs(found.clock_skew) > WRONG else warn
        return judged(f"this clock and the server's are {show_duration(abs(found.clock_skew))} apart", *mend)
    if found.clock_synced is None:
        return unknown("whether the clock is kept right could not be learnt")
    return ok("the clock is kept right") if found.clock_synced else warn("nothing keeps the clock right", *mend)


def dns(facts: Facts) -> Judged:
    found = facts.host
    if found.url_resolves is False:
        return bad(
            f"the name in the server's address, {found.url_name}, is not known here",
            f"getent hosts {found.url_name}",
            "# set server.url in fairy.toml to an address that people reach",
        )
    if found.name_resolves is None:
        return unknown("whether this machine's own name is known was not answered in time", "getent hosts $(hostname)")
    if not found.name_resolves:
        return warn(f"this machine's own name, {found.name}, is not known", f"echo '127.0.1.1 {found.name}' | sudo tee -a /etc/hosts")
    known = f"the names {found.name} and {found.url_name} are known" if found.url_resolves else f"the name {found.name} is known"
    return ok(known)


def http_port(facts: Facts) -> Judged:
    return port(facts.host.http, "page and API", "--port")


def ssh_port(facts: Facts) -> Judged:
    found = facts.host.ssh
    if facts.host.ssh_off:
        return skipped("the SSH gateway is switched off")
    if found is not None and found.state is PortState.TAKEN and found.by.startswith("sshd "):
        return bad(
            f"port {found.port} for SSH is taken by this machine's own sshd",
            "# set ssh.port in fairy.toml, or `Port 22` in /etc/ssh/sshd_config",
        )
    return port(found, "SSH", "--ssh-port")


def port(found: PortFact | None, what: str, option: str) -> Judged:
    if found is None:
        return unknown(f"the port for {what} could not be looked at")
    if found.state is PortState.FREE:
        return ok(f"port {found.port} for {what} is free")
    if found.state is PortState.OURS:
        return ok(f"our server has port {found.port} for {what}")
    words, look = f"port {found.port} for {what} is taken{f' by {found.by}' if found.by else ''}", f"sudo ss -ltnp 'sport = :{found.port}'"
    if found.asked:
        return bad(words, look, f"fairy up {option} {found.port + 10}")
    return warn(f"{words}; the next free one is used", look)


def ssh_keys(facts: Facts) -> Judged:
    found = facts.data
    if facts.host.ssh_off:
        return skipped("the SSH gateway is switched off")
    if found.there is False or found.host_keys == 0:
        return ok("host keys for SSH are made by the first start")
    if found.host_keys is None:
        return unknown("the host keys for SSH could not be looked at")
    return ok(f"{found.host_keys} host keys for SSH are there")


def share_library(facts: Facts) -> Judged:
    found = facts.data
    if found.share_library:
        return ok("the share library loads")
    if found.share_library is False:
        return bad(
            f"the share library does not load: {found.share_trouble}",
            "# remove the folder tools in the data folder, and start the server again",
        )
    if found.compiler is False:
        return warn("the share library is not made yet, and there is no C compiler to make it", *install_compiler(facts.os))
    return skipped("the share library is made by the first start with containers")


def database(facts: Facts) -> Judged:
    found = facts.data
    match found.base:
        case None:
            return unknown("the database could not be looked at")
        case Base.SOUND:
            return ok("the database is sound")
        case Base.ABSENT:
            return skipped("there is no database yet")
        case Base.ELSEWHERE:
            return skipped("the database is PostgreSQL's to check")
        case Base.DAMAGED:
            return bad(f"the database is damaged: {found.base_words}", "fairy down", "fairy restore BACKUP")
        case Base.SLOW:
            return unknown("the database is so large that looking through it takes longer than is waited here")
    return unknown(f"the database cannot be read: {found.base_words}", "sudo fairy doctor")


def backup(facts: Facts) -> Judged:
    found = facts.data
    if not found.backups_kept:
        return skipped("nobody wrote down when the last backup was made") if found.base in (None, Base.ABSENT) else warn(
            "there is no backup", "fairy backup")  # fmt: skip
    if found.backup_age is None:
        return warn("there is no backup", "fairy backup")
    words = f"the last backup is {show_duration(found.backup_age)} old"
    return warn(words, "fairy backup") if found.backup_age > BACKUP_OLD else ok(words)


def server(facts: Facts) -> Judged:
    found = facts.host
    if not found.server:
        return skipped("not signed in to a server", "fairy up", "fairy login URL")
    if found.server_trouble:
        return bad(f"the server at {found.server} was not heard: {found.server_trouble}", f"curl {found.server}/healthz")
    return ok(f"the server at {found.server} answers")
