"""Capture: one class per kind of captured value (`base` has the operations)."""
