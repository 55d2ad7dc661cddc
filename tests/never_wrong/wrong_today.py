"""The cases that are wrong today, by reason. A mark goes when its fault is mended."""

REASONS: dict[str, str] = {
    "identity of numbers is lost: nan is found by identity": """
        nan_is_found_by_identity
    """,
    "an int that is never used is guarded": """
        an_int_that_is_passed_on_and_not_used""",
    "what stands for a value reaches the user": """
        percent_format_errors join_of_numbers
    """,
    "an error of a host call or of the graph is raised late, past the program's handler": """
        errors_of_wrong_types""",
    "__getattribute__ of the user runs during capture, or is not run at all": """
        match_reads_attributes_once_and_in_order
    """,
    "str.format reads attributes from outside without a guard": """
        str_format_of_objects_from_outside""",
    "effects and host calls of one expression come out of order": """
        prints_logs_and_writes_interleave a_log_handler_changes_what_the_step_reads
    """,
    "sys.stdout and print are bound at capture": """
        printing_is_redirected_between_calls""",
    "warnings are raised after their block, and ours are seen by the user": """
        warnings_are_errors_for_a_while warnings_are_recorded_inside""",
}
WRONG_TODAY = {name: reason for reason, names in REASONS.items() for name in names.split()}
