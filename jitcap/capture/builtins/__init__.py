"""Capture: builtins on captured values, by what they are about (`table` registers them all)."""
