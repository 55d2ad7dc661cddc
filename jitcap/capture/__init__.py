"""Capture, the first stage: a function's bytecode -> Graph, guards and effects (`Captured`)."""
