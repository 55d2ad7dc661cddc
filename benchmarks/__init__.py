"""Benchmarks: eight workloads, five competitors, interleaved (python -m benchmarks)."""
