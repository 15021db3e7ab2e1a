"""What the driver's XID errors mean, how bad each is, and what to do. Data: the source is named in NOTICE; the words are ours."""
from dataclasses import dataclass

from gpufairy.core.alert import Severity

NOTE, WARNING, CRITICAL = Severity.NOTE, Severity.WARNING, Severity.CRITICAL
PROGRAM = "Most often the program's own fault: look at its code and its log. If programs that worked before do it too, reset the GPU."
RESET = "Drain the node, let its sessions end, and reset the GPU (nvidia-smi --gpu-reset) or reboot."
REBOOT = "Drain the node and reboot it. If it comes again, take the card out of use and ask its maker."
SPARE = "Reset the GPU when it is free: the spare row is then used."
LINK = "Drain the node, reset the GPUs on that link; if it comes again, reseat or return the board."
OFF_THE_BUS = "Drain the node; switch it off and on. Check the power cable, the seat in its slot and the heat; then ask the maker."
WATCH = "Watch it. If it goes on, have the card tested by its maker."
CONTAINED = "That program must start again. Reset the GPU when it is free."
LOOK_UP = "Look it up in NVIDIA's list of XID errors; if it comes again, reset the GPU."
RETURN = "Take the GPU out of use and have the card tested or replaced by its maker."


@dataclass(frozen=True, slots=True)
class XidMeaning:
    severity: Severity
    meaning: str
    todo: str


XIDS = {
    8: XidMeaning(NOTE, "a program's work on the GPU did not end in time", PROGRAM),
    13: XidMeaning(NOTE, "a program made the compute engine fault, such as by an address out of bounds", PROGRAM),
    31: XidMeaning(NOTE, "a program touched GPU memory that is not its own", PROGRAM),
    32: XidMeaning(WARNING, "commands to the GPU arrived damaged, by the program, the driver or the PCIe link", PROGRAM),
    38: XidMeaning(WARNING, "the driver's firmware failed", REBOOT),
    43: XidMeaning(NOTE, "a program's work was stopped after a fault of its own", PROGRAM),
    44: XidMeaning(WARNING, "the compute engine faulted while it switched programs", RESET),
    45: XidMeaning(NOTE, "a program's work was cleared away, after another error or because it was killed", PROGRAM),
    46: XidMeaning(CRITICAL, "the GPU stopped working on what it was given", RESET),
    48: XidMeaning(CRITICAL, "memory of the GPU failed beyond correction (double-bit ECC error)", RESET),
    61: XidMeaning(WARNING, "the GPU's own controller stopped for a moment", RESET),
    62: XidMeaning(CRITICAL, "the GPU's own controller halted", RESET),
    63: XidMeaning(WARNING, "a bad piece of GPU memory was marked for replacement", SPARE),
    64: XidMeaning(CRITICAL, "a bad piece of GPU memory could not be marked for replacement", RETURN),
    68: XidMeaning(NOTE, "the video decoder faulted", PROGRAM),
    69: XidMeaning(NOTE, "a program used the compute engine in a way that it does not know", PROGRAM),
    74: XidMeaning(CRITICAL, "an NVLink between GPUs failed", LINK),
    79: XidMeaning(CRITICAL, "the GPU fell off the bus: the host cannot reach it", OFF_THE_BUS),
    92: XidMeaning(WARNING, "many single-bit errors of GPU memory were corrected", WATCH),
    94: XidMeaning(WARNING, "GPU memory failed, and only the program that used it was hit", CONTAINED),
    95: XidMeaning(CRITICAL, "GPU memory failed, and other programs may be hit as well", RESET),
    109: XidMeaning(WARNING, "switching between programs took too long", RESET),
    110: XidMeaning(CRITICAL, "the GPU found a fault of its own protection", REBOOT),
    119: XidMeaning(CRITICAL, "the GPU's system processor (GSP) does not answer the driver", REBOOT),
    120: XidMeaning(CRITICAL, "the GPU's system processor (GSP) failed", REBOOT),
    121: XidMeaning(NOTE, "an error of the link between CPU and GPU was corrected", WATCH),
    136: XidMeaning(CRITICAL, "an NVLink could not be set up", REBOOT),
    137: XidMeaning(NOTE, "a program reached over NVLink for memory that is not its own", PROGRAM),
    140: XidMeaning(CRITICAL, "GPU memory failed, and the fault could not be undone", RESET),
    143: XidMeaning(CRITICAL, "the GPU could not be set up", REBOOT),
    154: XidMeaning(WARNING, "the driver says that this GPU needs a reset or a reboot", RESET),
    156: XidMeaning(WARNING, "a part of the GPU was taken out of use for good", RESET),
    157: XidMeaning(CRITICAL, "a part of the GPU could not be taken out of use", RETURN),
    158: XidMeaning(CRITICAL, "the GPU did not answer in time, fatally", REBOOT),
}  # fmt: skip
UNKNOWN = XidMeaning(WARNING, "an error that this version has no words for", LOOK_UP)


def meaning_of(code: int) -> XidMeaning:
    return XIDS.get(code, UNKNOWN)
