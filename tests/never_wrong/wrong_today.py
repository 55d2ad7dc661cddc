"""The cases that are wrong today, by reason. A mark goes when its fault is mended."""

REASONS: dict[str, str] = {
    "a guard's value has no literal (nan, or an int of more than 4300 digits)": """
        constants_without_a_literal huge_numbers_of_no_literal_are_stored""",
    "Python's words for an error differ": "not_implemented_falls_back_in_pythons_words",
    "identity of numbers is lost: nan is found by identity": "nan_is_found_by_identity",
    "a subclass of a number or of text is taken for its base": """
        enum_members_are_their_own_text numpy_floats_of_warnings enum_members_in_f_strings
        enum_members_read_from_a_class""",
    "a warning of NumPy comes from capture's own line": "numpy_ints_wrap",
    "an int that is never used is guarded": """
        an_int_that_is_not_used an_int_that_is_passed_on_and_not_used""",
    "the order of keyword arguments has no guard": """
        stars_keywords_and_defaults order_of_keyword_arguments""",
    "a global that an earlier call stored is not deleted": "globals_are_stored_and_deleted",
    "what stands for a value reaches the user": """
        context_of_an_error_in_exit exception_with_notes_and_attributes
        assert_with_a_tensor_in_the_message keyboard_interrupt_and_system_exit
        percent_format_errors""",
    "contexts of exceptions: only the frame's own handler is looked at": """
        implicit_context_of_two_levels context_from_the_caller_s_handler
        errors_of_a_step_while_the_caller_handles_another""",
    "exceptions in a cycle are rendered for ever": "context_is_cut_by_reraise",
    "frames and tracebacks show the interpreter": """
        formatted_traceback line_number_of_a_traceback traceback_is_kept_in_state
        the_step_sees_its_own_frames""",
    "AttributeError and NameError without name and obj": "errors_of_attributes_and_names",
    "an error of a host call or of the graph is raised late, past the program's handler": """
        errors_of_wrong_types""",
    "the tuple of arguments is another one": "exception_is_returned_and_shared",
    "`except` asks a metaclass's __instancecheck__, which Python does not": """
        exception_classes_compare_by_hooks""",
    "__getattribute__ of the user runs during capture, or is not run at all": """
        match_reads_attributes_once_and_in_order""",
    "user code runs on twins whose attributes are not loaded": """
        guards_run_nothing_of_the_user_object_as_a_key_of_a_dictionary_that_is_iterated""",
    "str.format reads attributes from outside without a guard": """
        str_format_of_objects_from_outside""",
    "effects and host calls of one expression come out of order": """
        prints_logs_and_writes_interleave a_log_handler_changes_what_the_step_reads""",
    "what is replayed asks the user's own methods again": """
        augmented_assignment_reads_its_target_once""",
    "__del__ runs during capture": "finalizer_runs_when_the_last_name_goes",
    "sys.stdout and print are bound at capture": """
        printing_is_redirected_inside printing_is_redirected_between_calls""",
    "warnings are raised after their block, and ours are seen by the user": """
        warnings_are_errors_for_a_while warnings_are_recorded_inside""",
}
WRONG_TODAY = {name: reason for reason, names in REASONS.items() for name in names.split()}
