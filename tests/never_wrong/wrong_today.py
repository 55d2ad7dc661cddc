"""The cases that are wrong today, by reason. A mark goes when its fault is mended."""

REASONS: dict[str, str] = {
    "a number that only the graph knows is out of range or domain, and gives a number where Python raises": """
        late_domain late_failure_in_a_caller_s_try late_failure_swallowed_by_suppress
        late_failure_between_two_modules_of_state late_failure_after_backward
        late_failure_of_the_second_of_two_checks a_failure_of_what_is_not_used
        late_failure_in_a_loop late_failure_leaves_a_half_filled_list
        a_condition_that_raises_is_not_a_false_one sqrt_of_a_number_of_the_graph
        log_of_a_number_of_the_graph exp_of_a_number_of_the_graph
        divide_of_a_number_of_the_graph floor_divide_of_a_number_of_the_graph
        modulo_of_a_number_of_the_graph int_of_a_number_of_the_graph
        round_of_a_number_of_the_graph negative_root_of_a_number_of_the_graph
        negative_power_of_a_number_of_the_graph power_overflows_of_a_number_of_the_graph
        two_to_the_float_of_a_number_of_the_graph math_pow_of_a_number_of_the_graph
        acos_of_a_number_of_the_graph asin_of_a_number_of_the_graph
        sin_of_inf_of_a_number_of_the_graph sinh_of_a_number_of_the_graph
        expm1_of_a_number_of_the_graph log1p_of_a_number_of_the_graph
        log2_of_a_number_of_the_graph float_item_to_the_power_of_an_item
        mean_of_right_answers_divides_by_an_item""",
    "integers of the graph wrap at 64 bits": """
        nonlocal_counts_through_two_levels power_of_an_integer_item
        integer_item_overflows_in_a_product huge_number_meets_a_tensor
        power_modulo_meets_a_tensor two_to_the_n_meets_a_tensor hash_meets_a_tensor
        huge_quotient_meets_a_tensor huge_floor_meets_a_tensor square_and_back_meets_a_tensor
        comparison_meets_a_tensor conditional_meets_a_tensor""",
    "`!= 0` of a number of the graph is taken for a divisor check": """
        is_zero_of_a_number_of_the_graph zero_is_of_a_number_of_the_graph
        assert_that_the_sum_is_not_zero loss_is_not_zero_decides all_of_an_item_that_is_not_zero
        not_equal_to_zero_is_a_value filter_of_items_that_are_not_zero""",
    "a number computed from outside raises before the effects that come first": """
        exp_of_a_number_of_the_outside round_of_a_number_of_the_outside
        power_overflows_of_a_number_of_the_outside two_to_the_float_of_a_number_of_the_outside
        sinh_of_a_number_of_the_outside expm1_of_a_number_of_the_outside
        float_overflow_meets_a_tensor""",
    "bools of the graph add as bools, and negative bases have no complex power": """
        bool_sum_meets_a_tensor float_power_meets_a_tensor""",
    "math.pow is taken for **": "math_pow_of_a_number_of_the_outside",
    "a guard's value has no literal (nan, or an int of more than 4300 digits)": """
        constants_without_a_literal huge_numbers_of_no_literal_are_stored""",
    "the text of an origin doubles with each use of a sum": "fibonacci_grows",
    "capture makes a rounded number text": "rounding_integers rounded_float_meets_a_tensor",
    "Python's words for an error differ": """
        wrong_arguments_raise_pythons_words integer_item_modulo_an_item
        not_implemented_falls_back_in_pythons_words""",
    "identity of numbers is lost: nan is found by identity": "nan_is_found_by_identity",
    "a subclass of a number or of text is taken for its base": """
        bool_int_float_and_numpy_at_one_place enum_members_are_their_own_text
        numpy_floats_of_warnings enum_members_in_f_strings enum_members_read_from_a_class""",
    "an int that is never used is guarded": """
        an_int_that_is_not_used an_int_that_is_passed_on_and_not_used""",
    "a check that fails late leaves half a step, or none of it": """
        late_select_by_a_tensor late_index_select late_embedding late_cross_entropy
        late_scatter_add late_index_fill late_cholesky late_inverse
        a_label_out_of_range_in_the_middle_of_training""",
    "the order of keyword arguments has no guard": """
        stars_keywords_and_defaults order_of_keyword_arguments""",
    "a global that an earlier call stored is not deleted": "globals_are_stored_and_deleted",
    "what stands for a value reaches the user": """
        context_of_an_error_in_exit exception_with_notes_and_attributes
        assert_with_a_tensor_in_the_message keyboard_interrupt_and_system_exit
        percent_format_errors str_format_with_attributes_and_items""",
    "contexts of exceptions: only the frame's own handler is looked at": """
        implicit_context_of_two_levels context_from_the_caller_s_handler
        errors_of_a_step_while_the_caller_handles_another""",
    "exceptions in a cycle are rendered for ever": "context_is_cut_by_reraise",
    "frames and tracebacks show the interpreter": """
        formatted_traceback line_number_of_a_traceback traceback_is_kept_in_state
        the_step_sees_its_own_frames""",
    "AttributeError and NameError without name and obj": "errors_of_attributes_and_names",
    "an error of a host call or of the graph is raised late, past the program's handler": """
        errors_of_wrong_types errors_of_tensors""",
    "the tuple of arguments is another one": "exception_is_returned_and_shared",
    "`except` asks a metaclass's __instancecheck__, which Python does not": """
        exception_classes_compare_by_hooks""",
    "__getattribute__ of the user runs during capture, or is not run at all": """
        match_reads_attributes_once_and_in_order own_getattribute_and_getattr
        own_getattribute_of_an_object_from_outside""",
    "user code runs on twins whose attributes are not loaded": """
        own_equality_of_objects_from_outside
        guards_run_nothing_of_the_user_object_as_a_key_of_a_dictionary_that_is_iterated""",
    "str.format reads attributes from outside without a guard": """
        str_format_of_objects_from_outside""",
    "effects and host calls of one expression come out of order": """
        prints_logs_and_writes_interleave a_log_handler_changes_what_the_step_reads""",
    "text with the user's own methods is made in another order": "user_format_methods",
    "the length hint is not asked": "own_methods_iterate own_methods_length own_methods_unpack",
    "sorting compares in another order": "own_methods_sort",
    "what is replayed asks the user's own methods again": """
        own_methods_identity_before_equality augmented_assignment_reads_its_target_once""",
    "a reflected method that the subclass only inherits goes first": """
        reflected_operators_of_subclasses_go_first""",
    "__del__ runs during capture": "finalizer_runs_when_the_last_name_goes",
    "sys.stdout and print are bound at capture": """
        printing_is_redirected_inside printing_is_redirected_between_calls""",
    "warnings are raised after their block, and ours are seen by the user": """
        warnings_are_errors_for_a_while warnings_are_recorded_inside""",
}
WRONG_TODAY = {name: reason for reason, names in REASONS.items() for name in names.split()}
