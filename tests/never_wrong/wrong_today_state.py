"""The programs of programs_state_*.py that are wrong today, by cause. A mark goes with its fault."""

from typing import Final

_BY_CAUSE: Final = {
    "capture runs on the very builtins that the program replaced": """
        a_replaced_builtin_counts_its_calls isinstance_is_replaced""",
    "a function's dunder attributes are read without a guard, and are the real ones": """
        the_name_of_a_helper_changes attributes_of_the_step_seen_from_outside
        wrapped_is_followed_or_replaced annotations_of_a_function the_defaults_are_set_inside
        keyword_defaults_are_written_inside
        a_list_in_the_defaults_is_written_from_outside_the_function
        the_cells_of_a_closure_are_written_inside globals_are_written_through_a_function""",
    "the order of keyword arguments is not guarded": """
        the_order_of_keyword_arguments keyword_arguments_in_another_order_are_passed_on""",
    "explaining a guard that failed tests its dependants, too": """
        a_guarded_length_of_an_unsized_object""",
    "capture splits inside the draw of two numbers": "getrandbits_after_uniform",
    "the seed of a generator is read without a guard": "a_generator_of_eager",
    "a print is put off past the end of a redirection": "stdout_is_redirected_inside",
    "two names of one leaf that were two: a gradient is lost": """
        weights_are_tied_later gradients_of_one_leaf_by_two_names""",
    "modules that were told apart in a set become one": "the_module_is_in_the_list_twice",
    "two objects with one dictionary have two twins of it": "objects_share_their_dictionary",
    "`is` of equal numbers is neither guarded nor answered by Python": """
        is_between_a_number_and_itself a_chain_of_comparisons""",
    "capture's own look at a twin runs the user's special methods": """
        getattribute_counts_its_calls texts_in_an_exception_and_a_print
        hashes_in_sets_and_dictionaries the_hash_of_a_key_runs_once_per_look""",
    "the words of an error are not Python's": """
        a_context_manager_gets_an_exit addition_of_user_classes_returns_notimplemented
        a_missing_attribute_in_python_s_words wrong_calls_in_python_s_words""",
    "__index__ runs natively, on a twin": "a_format_and_an_index_appear",
    "text of an enumeration is its repr, though its own __str__ is nearer": """
        a_subclass_of_int a_string_enumeration_is_formatted an_int_enumeration_is_formatted""",
    "NumPy's float is a float": "a_float_that_is_an_int a_numpy_float_is_returned",
    "what stands for a number reaches an exception": "members_of_an_enumeration",
    "a scalar that is made anew at each call is one object for ever": """
        numpy_scalars_as_keys_and_effects""",
    "the limit of a deque is not guarded": "a_deque_with_another_length",
    "a mark for a gradient that was not read reaches the user": """
        a_deep_copy_inside copies_of_tensors_keep_their_marks""",
    "the keywords and attributes of a partial are copied, or not seen": """
        the_keywords_of_a_partial_are_changed_inside""",
    "copy.copy asks for no __reduce_ex__": "an_object_reduces_itself",
    "special methods run in another order, or not at all": """
        order_in_sorts lengths_and_iteration an_unpacking_of_a_user_object""",
    "a reflected operator of the same class is asked": "sums_and_reflected_operators",
    "finalizers run while capturing, and never again": """
        del_runs_at_each_call del_runs_when_the_last_reference_goes
        a_finalizer_is_registered_inside""",
    "frames are capture's own": """
        the_frame_above the_locals_of_the_caller the_stack_is_inspected the_stack_of_a_traceback""",
    "announcements of a split are seen by the program": "warnings_are_caught_inside",
    "an exception raised in a callee has no context": """
        an_exception_raised_while_one_is_handled""",
    "a tensor from outside with a history says that it has no grad_fn": "leaves_and_histories",
}

WRONG_TODAY: Final = {name: cause for cause, names in _BY_CAUSE.items() for name in names.split()}
