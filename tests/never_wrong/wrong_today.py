"""The cases that are wrong today, by reason. A mark goes when its fault is mended."""

REASONS: dict[str, str] = {
    "an int that is never used is guarded": """
        an_int_that_is_passed_on_and_not_used""",
    "__getattribute__ of the user runs during capture, or is not run at all": """
        match_reads_attributes_once_and_in_order
    """,
}
WRONG_TODAY = {name: reason for reason, names in REASONS.items() for name in names.split()}
