"""What nvidia-smi prints becomes GPUs of ours; what it cannot say is left out, never guessed."""
from pathlib import Path

import pytest

from gpufairy.devices.nvidia import found_nvidia, kind_of, read_gpus

PRODUCTS = {
    ("NVIDIA A100-SXM4-40GB", 40960): "A100-40GB", ("NVIDIA A100 80GB PCIe", 81920): "A100-80GB", ("NVIDIA H200", 143155): "H200-141GB",
    ("NVIDIA GeForce RTX 3090", 24576): "RTX3090", ("NVIDIA RTX A6000", 49140): "A6000", ("Tesla V100-SXM2-16GB", 16384): "V100-16GB",
    ("NVIDIA GeForce RTX 2080 Ti", 11264): "RTX2080Ti", ("NVIDIA H100 80GB HBM3", 81559): "H100-80GB", ("NVIDIA L40S", 46068): "L40S",
    ("NVIDIA L40", 46068): "L40", ("NVIDIA TITAN RTX", 24576): "TITAN-RTX", ("Quadro K2200", 4096): "K2200", ("", 1): "GPU",
}  # fmt: skip


@pytest.mark.parametrize(("product", "kind"), PRODUCTS.items())
def test_products_have_the_names_that_people_use(product, kind):
    assert kind_of(*product) == kind


def test_a_gpu_that_fell_off_the_bus_is_not_offered():
    listing = "0, GPU-aa, NVIDIA H200, 143771\n1, [Unknown Error], [Unknown Error], [Unknown Error]\n3, GPU-bb, NVIDIA H200, [N/A]\n"
    assert [(gpu.index, gpu.uuid, gpu.kind) for gpu in read_gpus(listing)] == [(0, "GPU-aa", "H200-141GB")]


def a_program(folder: Path, script: str) -> str:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)
    return str(path)


def test_gpus_and_the_drivers_cuda_are_found(tmp_path):
    script = 'case "$1" in --query*) echo "0, GPU-aa, NVIDIA A30, 24576";; *) echo "| Driver Version: 580.1  CUDA Version: 13.0 |";; esac'
    found = found_nvidia(a_program(tmp_path, script))
    assert ([gpu.kind for gpu in found.gpus], found.driver_cuda, found.trouble) == (["A30-24GB"], "13.0", "")


def test_a_driver_in_trouble_is_told_in_words(tmp_path):
    assert "has failed" in found_nvidia(a_program(tmp_path, 'echo "NVIDIA-SMI has failed"; exit 9')).trouble


def test_no_driver_is_no_trouble():
    assert found_nvidia("no-such-program").trouble == ""
