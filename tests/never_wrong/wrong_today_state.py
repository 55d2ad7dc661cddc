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
    "members of a class are guarded by their number alone": """
        a_member_of_a_class_is_swapped_for_another""",
    "absence in a module, or the answer of its __getattr__, is not guarded": """
        a_module_attribute_appears a_module_has_a_getattr a_module_attribute_is_deleted_inside
        a_name_is_imported_that_is_not_there""",
    "an empty cell is not guarded": "a_closure_variable_is_empty",
    "the fields of a SimpleNamespace are not its dictionary": "a_member_of_an_enumeration_of_names",
    "what stands for a number reaches an exception": """
        nan_in_a_container""",
    "attributes of a value that is guarded as equal are read from the real one": """
        an_attribute_of_an_enumeration_member an_int_with_attributes a_string_with_attributes""",
    "a scalar that is made anew at each call is one object for ever": """
        numpy_scalars_as_keys_and_effects""",
    "a mark for a gradient that was not read reaches the user": """
        a_deep_copy_inside copies_of_tensors_keep_their_marks""",
    "hooks of a class statement run while capturing, and never again": """
        set_name_and_init_subclass""",
    "a subscript of a class is not guarded": "class_getitem",
    "the order of resolution behind super() is not guarded": "the_bases_of_a_base_are_assigned",
    "the methods of type are taken as pure": "subclasses_are_listed",
    "what super() gives has no attributes of its own": "super_with_other_arguments",
    "finalizers run while capturing, and never again": """
        del_runs_at_each_call del_runs_when_the_last_reference_goes
        a_finalizer_is_registered_inside""",
    "frames are capture's own": """
        the_frame_above the_locals_of_the_caller the_stack_is_inspected the_stack_of_a_traceback""",
    "announcements of a split are seen by the program": "warnings_are_caught_inside",
    "a warning of NumPy names a line of capture, and comes once": """
        the_errors_of_numpy a_scalar_of_numpy_in_place_of_a_number""",
    "the limit of digits is not guarded": "the_longest_int_that_is_printed",
}

WRONG_TODAY: Final = {name: cause for cause, names in _BY_CAUSE.items() for name in names.split()}
