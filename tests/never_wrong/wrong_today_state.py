"""The programs of programs_state_*.py that are wrong today, each with its reason."""

WRONG_TODAY: dict[str, str] = {}
