"""A stand-in for libcuda.so.1: cards, contexts and every kind of device memory, counted over all processes in a file of its own.

Programs start with `FakeCuda(folder, cards).env`; what the driver really handed out is then `now(card)` and `peak(card)`.
"""
from fake_cuda.build import Card, FakeCuda, built_library

__all__ = ["Card", "FakeCuda", "built_library"]
