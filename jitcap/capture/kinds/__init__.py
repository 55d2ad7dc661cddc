"""Capture: one class per kind of captured value (`base` has the operations).

(real object, origin) -> the value to work with and its guard; value, operation -> answer."""
