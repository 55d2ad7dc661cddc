"""Capture, the first stage: a Python function's bytecode -> Graph, guards and effects (`Captured`)."""
