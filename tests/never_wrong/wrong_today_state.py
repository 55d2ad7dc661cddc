"""The programs of programs_state_*.py that are wrong today, by cause. A mark goes with its fault."""

from typing import Final

_BY_CAUSE: Final = {
    "a class property that claims another class is not followed by its attributes": """
        a_class_claims_to_be_another""",
    "the identity of an object that the call makes is kept as a number": "an_id_is_kept",
    "capture runs on the very builtins that the program replaced": """
        a_replaced_builtin_counts_its_calls isinstance_is_replaced""",
    "explaining a guard that failed tests its dependants, too": """
        a_guarded_length_of_an_unsized_object""",
    "capture splits inside the draw of two numbers": "getrandbits_after_uniform",
    "the seed of a generator is read without a guard": "a_generator_of_eager",
    "a print is put off past the end of a redirection": "stdout_is_redirected_inside",
    "modules that were told apart in a set become one": "the_module_is_in_the_list_twice",
    "two objects with one dictionary have two twins of it": "objects_share_their_dictionary",
    "`is` of equal numbers is neither guarded nor answered by Python": """
        is_between_a_number_and_itself a_chain_of_comparisons""",
    "the fields of a SimpleNamespace are not its dictionary": "a_member_of_an_enumeration_of_names",
    "what stands for a number reaches an exception": """
        nan_in_a_container""",
    "a scalar that is made anew at each call is one object for ever": """
        numpy_scalars_as_keys_and_effects""",
    "a mark for a gradient that was not read reaches the user": """
        a_deep_copy_inside copies_of_tensors_keep_their_marks""",
    "what super() gives has no attributes of its own": "super_with_other_arguments",
    "finalizers run while capturing, and never again": """
        del_runs_at_each_call del_runs_when_the_last_reference_goes
        a_finalizer_is_registered_inside""",
    "announcements of a split are seen by the program": "warnings_are_caught_inside",
}

WRONG_TODAY: Final = {name: cause for cause, names in _BY_CAUSE.items() for name in names.split()}
