"""The cases that are wrong today, each with its reason. A mark goes when its fault is mended."""

WRONG_TODAY: dict[str, str] = {}
