"""Kinds of GPU that can be simulated: their names and their memory, as nvidia-smi prints it."""
MIB = 2**20

MEMORY_MIB = {
    "A100-40GB": 40960, "A100-80GB": 81920, "A30-24GB": 24576,
    "H100-80GB": 81559, "H100-94GB": 95830, "H100-96GB": 97871, "H200-141GB": 143771,
    "B200-180GB": 183359, "GB200-186GB": 189471,
    "A2": 15356, "A10": 23028, "A40": 46068, "A4000": 16376, "A5000": 24564, "A6000": 49140,
    "L4": 23034, "L40": 46068, "L40S": 46068,
    "P100-16GB": 16384, "T4": 15360, "V100-16GB": 16384, "V100-32GB": 32768, "TITAN-RTX": 24576,
    "RTX2080Ti": 11264, "RTX3060": 12288, "RTX3080": 10240, "RTX3090": 24576, "RTX4070": 12282, "RTX4080": 16376,
    "RTX4090": 24564, "RTX5080": 16303, "RTX5090": 32607, "RTX6000-Ada": 49140, "RTX-PRO-6000": 97887,
}  # fmt: skip

ALIASES = {
    "A100": "A100-40GB", "A30": "A30-24GB", "H100": "H100-80GB", "GH200": "H100-96GB", "H200": "H200-141GB",
    "B200": "B200-180GB", "GB200": "GB200-186GB", "V100": "V100-16GB", "P100": "P100-16GB",
}  # fmt: skip


def kind_named(text: str) -> str | None:
    """The kind as we write it, for any way of writing capitals; None: unknown."""
    names = {name.upper(): name for name in MEMORY_MIB} | {short.upper(): full for short, full in ALIASES.items()}
    return names.get(text.upper())
