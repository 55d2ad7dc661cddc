"""What holds the documentation: page -> how a paragraph begins -> the tests of what it says.

A test is "file::function", or a file where the whole file is about it; SELF are tests of
test_docs.py. LIMIT marks what promises nothing. tests/test_docs.py asserts that every paragraph of
the pages is here, and that every test exists: who writes a sentence, says what holds it.
"""

SELF = "tests/test_docs.py::"
LINKS = SELF + "test_links_lead_somewhere"
FILES = SELF + "test_named_files_exist"
TOUR = SELF + "test_the_tour_shows_what_is_printed"
LIMIT = "a limit, not a promise"

CLAIMS = {
    "README.md": {
        "An eager tensor library": SELF + "test_the_readme_example_runs",
        "You write an ordinary": SELF + "test_the_readme_example_runs "
        "tests/training/test_against_torch.py::test_twenty_steps",
        "Both need Python 3.11": SELF + "test_the_scripts_build_their_own_environment "
        "tests/codegen/test_no_compiler.py::test_it_runs_and_says_so",
        "To use it in your own": SELF + "test_the_extras_exist "
        "tests/triton/test_training.py::test_without_triton_it_says_what_to_install",
        "One run of": SELF + "test_the_ratios_are_those_of_the_times",
        "`python -m benchmarks`": SELF + "test_named_modules_exist "
        "tests/test_benchmarks.py::test_a_missing_package_is_named",
        "* [docs/index.md]": LINKS,
        "* [CONTRIBUTING.md]": LINKS,
        "* `examples/digits.py`": FILES,
        "* `jitcap/pipeline.py`": FILES,
        "`torch` is a reference": "tests/test_repo.py::test_no_torch_import",
        "Apache-2.0": LINKS,
    },
    "docs/index.md": {
        "* [tour.md]": LINKS,
        "* [debugging.md]": LINKS,
        "* [limits.md]": LINKS,
        "* [../CONTRIBUTING.md]": LINKS,
        "What the compiled function promises": "tests/never_wrong/test_never_wrong.py::test_case "
        "tests/capture/test_guards.py::test_mutation "
        "tests/training/test_against_torch.py::test_a_schedule_compiles_once",
        "`eager.load` reads files": "tests/data/test_torch_files.py tests/data/test_hostile_files.py "
        "tests/data/test_torch_files.py::test_what_the_user_allows",
        "`eager.save` writes safetensors": "tests/data/test_safetensors.py::test_round_trip "
        "tests/data/test_hostile_files.py::test_the_format_is_what_the_docstring_says "
        "tests/data/test_hostile_files.py::test_an_interrupted_save_keeps_the_old_file",
        "`x.__array_namespace__()`": "tests/eager/test_array_api.py "
        + SELF
        + "test_the_programs_of_the_pages_run",
    },
    "docs/tour.md": {
        "`loss.backward()` in the function": "tests/jitcap/test_jit.py::"
        "test_a_step_with_its_backward_inside tests/jitcap/test_partition.py::"
        "test_flow_finds_minimum_cuts tests/jitcap/test_gradients_outside.py",
        "The program:": TOUR,
        "`jitcap.explain(program)(x, y)`": TOUR,
        "Captured from the bytecode": TOUR,
        "What codegen is handed": TOUR,
        "One nest per value": TOUR,
        "The product is computed inside": TOUR,
        "One kernel, as Python": TOUR,
        "Nothing is temporary": TOUR,
        "The C++: lanes": TOUR
        + " tests/codegen/test_fusion.py::test_equal_kernels_are_emitted_once",
        "The same stages for a softmax": LINKS + " tests/test_golden.py::test_golden",
    },
    "docs/debugging.md": {
        "**Is it the compiler?**": "tests/jitcap/test_jit.py::"
        "test_stance_eager_runs_the_function_itself tests/jitcap/test_verify.py",
        "**What was compiled?**": SELF + "test_what_is_counted "
        "tests/jitcap/test_jit.py::test_guards_recompile_and_say_why",
        "**Does it run plainly?**": SELF + "test_the_limits_are_those_of_the_code "
        "tests/capture/test_limits.py",
        "**Why did it split?**": "tests/capture/test_breaks.py::test_the_record "
        "tests/capture/test_split.py::test_fullgraph_lists_every_split "
        "tests/jitcap/test_jit.py::test_stance_fail_on_recompile",
        "`JITCAP_DUMP=dir`": "tests/jitcap/test_jit.py::test_dump_writes_files_that_run",
        "`CHECK=1` verifies": "tests/jitcap/test_graph.py::test_verify_names_a_use_before_definition",
        "**Which stage is wrong?**": SELF + "test_the_backends_are_the_documented_ones",
        "Every call is the plain one": "tests/jitcap/test_verified_programs.py::"
        "test_the_call_is_the_plain_one",
        "* the returned value": "tests/jitcap/test_verify.py::test_a_returned_structure_that_is_wrong "
        "tests/jitcap/test_verify.py::test_a_view_with_wrong_strides "
        "tests/jitcap/test_verify.py::test_an_alias_that_is_a_copy",
        "* every object that was read": "tests/jitcap/test_verify.py::test_an_effect_that_is_dropped "
        "tests/jitcap/test_verify.py::test_a_write_that_is_dropped",
        "* what is printed and logged": "tests/jitcap/test_verify.py::test_a_wrong_print "
        "tests/jitcap/test_verify.py::test_a_wrong_log_record "
        "tests/jitcap/test_verified_programs.py::test_warnings_are_given_once",
        "* the gradients that the result": "tests/jitcap/test_verify.py::"
        "test_a_wrong_derivative_of_what_is_passed_on",
        "* an exception on one side": "tests/jitcap/test_verify.py::"
        "test_an_exception_on_one_side_only",
        "Integers, masks and random": "tests/jitcap/test_verify.py::test_integers_are_exact "
        "tests/jitcap/test_verified_programs.py::test_noise_is_measured_per_element "
        + SELF
        + "test_the_limits_are_those_of_the_code",
        "A difference raises": "tests/jitcap/test_verify.py",
        "A function that is split": "tests/capture/test_split.py::test_chopped_and_verified "
        "tests/jitcap/test_verified_programs.py::test_a_nested_jit_runs_plainly",
        "Compiled versions are kept": "tests/jitcap/test_kept_processes.py "
        "tests/jitcap/test_kept.py",
        "What tells two functions apart": "tests/jitcap/test_kept.py tests/jitcap/test_kept_crafted.py "
        "tests/codegen/test_runtime_cache.py",
        "Each is an environment variable": "tests/jitcap/test_config.py::test_order_of_precedence "
        + SELF
        + "test_every_setting_is_documented",
    },
    "docs/limits.md": {
        "* A program that looks at frames": "tests/never_wrong/programs_frames.py",
        "* A print, a log record": "tests/never_wrong/programs_output.py",
        "What is not captured splits": "tests/capture/test_breaks.py::test_same_answer",
        "* Python 3.11, 3.12": SELF + "test_another_python_is_said",
        "* Shapes are static": "tests/behaviour/test_like_plain_python.py::"
        "test_a_new_shape_and_dtype_recompile tests/eager/test_options.py::test_sizes_that_vary",
        "* An option of PyTorch's": "tests/eager/test_options.py",
        "* Ops whose output shape": SELF + "test_sizes_that_data_decide_split",
        "* A branch on a tensor's value": "tests/capture/test_split.py "
        "tests/capture/test_breaks.py::test_what_constants_decide_splits_nothing",
        "* The cache on disk": "tests/jitcap/test_kept_crafted.py "
        "tests/codegen/test_runtime_cache.py::test_writable_by_others_is_refused",
        "* Some functions have no compiled": "tests/ops/test_called_back.py "
        "tests/jitcap/test_callbacks.py",
        "What is called back besides": "tests/jitcap/test_callbacks.py "
        "tests/codegen/test_library_signal.py::test_complex_arithmetic",
        "* Files of `torch.save`": "tests/data/test_hostile_files.py::test_crafted_files",
        "* Sparse and nested": SELF + "test_what_is_not_there",
        "* GPU:": "tests/triton/test_interpreter.py tests/triton/test_build.py "
        "tests/triton/test_device.py",
        "* Windows and macOS": LIMIT,
    },
}
