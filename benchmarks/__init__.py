"""Benchmarks: eight workloads, five competitors, one process, interleaved (python -m benchmarks)."""
