"""Runtimes of the backends: compiled text -> something that runs."""
