"""Capture: one small function per operation of CPython, by family (`table` has them all)."""
