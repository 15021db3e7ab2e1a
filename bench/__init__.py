"""Benchmarks: each module measures one thing of ours beside its peers, and prints the ratio."""
