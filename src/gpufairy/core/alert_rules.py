"""Every rule of alerts: what it watches, how bad it is, how long it takes, what to do. Its judgement is in alert_hosts, _gpus or _house."""
from datetime import timedelta

from gpufairy.core.alert import Rule, Severity

NOTE, WARNING, CRITICAL = Severity.NOTE, Severity.WARNING, Severity.CRITICAL


def s(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


ALL_RULES = (
    Rule(
        "memory_low", CRITICAL, "Host memory about to run out", "what is free of a host's memory falls so fast, or is so little, that "
        "the kernel will soon kill something", "Look who takes it: `fairy top`, users. Stop or move what grows; no swap helps here.",
        s(10), s(60),
    ),
    Rule(
        "disk_filling", WARNING, "Disk filling", "a file system is nearly full, or will be soon if it goes on like this",
        "Look what grows there, and clean up or make room before writes fail.", s(60), s(300),
    ),
    Rule(
        "inodes_low", WARNING, "Inodes running out",
        "a file system has hardly any inodes left: no new file can be made, however much room there is",
        "Look for folders with very many small files, and pack or delete them.", s(60), s(300),
    ),
    Rule(
        "host_hot", WARNING, "Host overheating", "a sensor of the host is near the point at which the machine protects itself",
        "Check its fans, filters and the air of the room.", s(60), s(120),
    ),
    Rule(
        "gpu_hot", CRITICAL, "GPU overheating", "a GPU or its memory is at the temperature at which it slows down to save itself",
        "Check the fans and the air flow of that host; drain it if it does not cool down.", s(30), s(120),
    ),
    Rule(
        "gpu_throttled", WARNING, "GPU slowed down",
        "heat or a failing power supply has slowed a GPU down for minutes; a power cap is no such reason",
        "Check cooling and power of that host: what runs there takes longer than it should.", s(300), s(300),
    ),
    Rule(
        "gpu_power", CRITICAL, "GPU power", "the machine brakes a GPU for want of power, or it draws more than it may",
        "Check power supplies and cables of that host, and the load on its circuit.", s(30), s(120),
    ),
    Rule(
        "gpu_fan", CRITICAL, "GPU fan", "a GPU is hot and its fan stands still",
        "Stop what runs on it, switch the host off, and replace the fan.",
        s(30), s(120),
    ),
    Rule(
        "gpu_xid", WARNING, "GPU error (XID)", "the driver reported an error of a GPU; what each means is told with it",
        "See what the error means.", s(0), s(3600),
    ),
    Rule(
        "gpu_ecc", CRITICAL, "GPU memory failing (ECC)", "memory of a GPU failed beyond correction, or cannot be repaired any more",
        "Drain the node and reset the GPU; if it comes again, the card goes back to its maker.", s(0), s(3600),
    ),
    Rule(
        "gpu_remap", WARNING, "GPU memory to be repaired", "a bad row of a GPU's memory is replaced at the next reset",
        "Reset the GPU when nobody is on it: nvidia-smi --gpu-reset, or reboot.", s(60), s(60),
    ),
    Rule(
        "gpu_lost", CRITICAL, "GPU lost", "a GPU that was there does not answer any more",
        "Drain the node and reboot it; if it stays away, check its seat and power, then ask the maker.", s(10), s(60),
    ),
    Rule(
        "driver_hung", CRITICAL, "GPU driver does not answer",
        "nothing can be read of the GPUs of a host, though the host itself answers",
        "Look at `dmesg` there. Sessions run on; nothing new is started. Drain the node and reboot it.", s(30), s(60),
    ),
    Rule(
        "node_silent", CRITICAL, "Host silent", "no report came of a host for 17 s, though the server was there to hear it",
        "See whether it answers ping and ssh; look at its console and power.", s(0), s(10),
    ),
    Rule(
        "agent_old", NOTE, "Agent of another version", "the agent of a host is older than the server",
        "Install the server's version there and start the agent again.", s(600), s(60),
    ),
    Rule(
        "certificate_ending", WARNING, "Certificate ends", "a TLS certificate is about to end, or cannot be read",
        "Renew it, and see why it was not renewed by itself.", s(0), s(60),
    ),
    Rule(
        "backup_old", WARNING, "Backup old", "the last good backup is older than it should be",
        "Run `fairy backup`, and see why the last one failed.", s(0), s(60),
    ),
    Rule(
        "queue_stuck", CRITICAL, "Queue stuck", "the server cannot start sessions: a part of it fails, or the engine does not answer",
        "See the server's log and /readyz; restart the container engine if it hangs. Sessions that run go on.", s(120), s(30),
    ),
    Rule(
        "outsider", WARNING, "Outsider on a GPU", "a program that no session started is on a GPU that is handed out to sessions",
        "Ask its user to stop it or to take a session; see `fairy smi`.", s(60), s(60),
    ),
    Rule(
        "disk_over", WARNING, "User over the disk limit",
        "a user has more on the disks of a machine than their limit, and nothing there holds them to it",
        "Talk with them: `fairy disk --user NAME` says what could go. Or set another limit: `fairy quota set user:NAME --disk SIZE`.",
        s(0), s(60),
    ),
    Rule(
        "leak", WARNING, "Something is held by nobody", "store, engine and driver disagree on who holds what", "See what was found.",
        s(60), s(60),
    ),
    Rule(
        "doctor", WARNING, "The doctor found something", "a check of the server's own host fails that was well, or had never been looked "
        "at by night", "See Admin, Doctor, or `fairy doctor --last`: the lines that mend it stand there.", s(0), s(0),
    ),
)  # fmt: skip
RULES = {rule.id: rule for rule in ALL_RULES}
