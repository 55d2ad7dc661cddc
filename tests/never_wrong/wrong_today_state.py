"""The programs of programs_state_*.py that are wrong today, by cause. A mark goes with its fault."""

from typing import Final

_BY_CAUSE: Final = {
    "capture runs on the very builtins that the program replaced": """
        a_replaced_builtin_counts_its_calls isinstance_is_replaced""",
    "the order of keyword arguments is not guarded": """
        the_order_of_keyword_arguments keyword_arguments_in_another_order_are_passed_on""",
    "explaining a guard that failed tests its dependants, too": """
        a_guarded_length_of_an_unsized_object""",
    "capture splits inside the draw of two numbers": "getrandbits_after_uniform",
    "the seed of a generator is read without a guard": "a_generator_of_eager",
    "a print is put off past the end of a redirection": "stdout_is_redirected_inside",
    "modules that were told apart in a set become one": "the_module_is_in_the_list_twice",
    "two objects with one dictionary have two twins of it": "objects_share_their_dictionary",
    "`is` of equal numbers is neither guarded nor answered by Python": """
        is_between_a_number_and_itself a_chain_of_comparisons""",
    "the words of an error are not Python's": """
        a_context_manager_gets_an_exit a_missing_attribute_in_python_s_words
        wrong_calls_in_python_s_words""",
    "text of an enumeration is its repr, though its own __str__ is nearer": """
        a_subclass_of_int a_string_enumeration_is_formatted an_int_enumeration_is_formatted""",
    "a scalar that is made anew at each call is one object for ever": """
        numpy_scalars_as_keys_and_effects""",
    "the limit of a deque is not guarded": "a_deque_with_another_length",
    "a mark for a gradient that was not read reaches the user": """
        a_deep_copy_inside copies_of_tensors_keep_their_marks""",
    "the keywords and attributes of a partial are copied, or not seen": """
        the_keywords_of_a_partial_are_changed_inside""",
    "copy.copy asks for no __reduce_ex__": "an_object_reduces_itself",
    "finalizers run while capturing, and never again": """
        del_runs_at_each_call del_runs_when_the_last_reference_goes
        a_finalizer_is_registered_inside""",
    "frames are capture's own": """
        the_frame_above the_locals_of_the_caller the_stack_is_inspected the_stack_of_a_traceback""",
    "announcements of a split are seen by the program": "warnings_are_caught_inside",
    "an exception raised in a callee has no context": """
        an_exception_raised_while_one_is_handled""",
}

WRONG_TODAY: Final = {name: cause for cause, names in _BY_CAUSE.items() for name in names.split()}
