"""What holds the documentation: page -> how a paragraph begins -> the tests of what it says.

A test is "file::function", or a file where the whole file is about it; SELF are tests of
test_docs.py. LIMIT marks what promises nothing. tests/test_docs.py asserts that every paragraph of
the pages is here, and that every test exists: who writes a sentence, says what holds it.
"""

from jitcap.base import breaks

SELF = "tests/test_docs.py::"
LINKS = SELF + "test_links_lead_somewhere"
FILES = SELF + "test_named_files_exist"
TOUR = SELF + "test_the_tour_shows_what_is_printed"
ROOFLINE = "tests/test_benchmarks.py::test_the_parts_of_a_step_beside_their_floors"
PROFILE = "tests/jitcap/profiling/test_profile.py::test_"
BACKGROUND = "tests/jitcap/test_background.py"
LIMIT = "a limit, not a promise"
COMPILED = "tests/eager/device/test_compiled.py::test_"
DEVICE = "tests/eager/device/"
PARTS = " tests/eager/device/test_parts.py::test_"
SEVERAL = " tests/eager/device/test_several.py::test_"
RANKS = "tests/eager/distributed/test_distributed.py::test_"
FAULTS = "tests/eager/distributed/test_faults.py::test_"
CHECKPOINT = "tests/eager/distributed/test_checkpoint.py::test_"
COMMANDS = "tests/jitcap/test_commands.py::"
BISECT = "tests/jitcap/reproduce/test_bisect_command.py::"
SOURCE = "tests/jitcap/reproduce/test_source.py::"
REDUCE = "tests/jitcap/reproduce/test_reduce.py::"
KEPT = "tests/jitcap/store/test_kept_processes.py::"
PROGRAMS = "tests/eager/programs/test_programs.py::"
PLAN = "tests/test_benchmarks.py::test_the_plan_of_larger_machines"
LOOPS = "tests/eager/device/test_loops.py::test_"
BREAKS = "tests/jitcap/capture/test_breaks.py::"
KINDS = SELF + "test_each_kind_of_split_has_its_paragraph"
MESSAGES = SELF + "test_the_messages_are_those_of_the_code"
GLOSSARY = SELF + "test_the_glossary_is_sorted_and_used"


def links(pages):
    """The claims of a list of pages to read on."""
    return {f"* [{page}]": LINKS for page in pages.split()}


def each(start, names):
    """Tests whose names begin with the same words."""
    return " ".join(start + name for name in names.split())


CLAIMS = {
    "README.md": {
        "An eager tensor library": SELF + "test_the_readme_example_runs",
        "You write an ordinary": SELF + "test_the_readme_example_runs "
        "tests/training/test_against_torch.py::test_twenty_steps",
        "Both need Python 3.11": SELF + "test_the_scripts_build_their_own_environment "
        "tests/codegen/targets/cpp/test_no_compiler.py::test_it_runs_and_says_so",
        "To use it in your own": SELF + "test_the_extras_exist "
        "tests/codegen/targets/triton/test_training.py::test_without_triton_it_says_what_to_install",
        "One run of": SELF + "test_the_ratios_are_those_of_the_times",
        "`python -m benchmarks`": SELF + "test_named_modules_exist "
        "tests/test_benchmarks.py::test_a_missing_package_is_named",
        **links(
            "docs/first_hour.md docs/pytorch.md docs/index.md docs/debugging.md docs/performance.md "
            "docs/distributed.md docs/commands.md CONTRIBUTING.md"
        ),
        "* `examples/digits.py`": FILES,
        "* `jitcap/pipeline.py`": FILES,
        "`torch` is a reference": "tests/test_repo.py::test_no_torch_import",
        "Apache-2.0": LINKS,
    },
    "docs/index.md": {
        **links(
            "first_hour.md pytorch.md tour.md debugging.md commands.md shapes.md control_flow.md distributed.md "
            "plan.md gpu.md performance.md limits.md glossary.md ../CONTRIBUTING.md"
        ),
        "What the compiled function promises": "tests/never_wrong/test_never_wrong.py::test_case tests/jitcap/guards/test_guards.py::test_mutation tests/training/test_against_torch.py::test_a_schedule_compiles_once",
        "`export(fn, args)` captures": "tests/jitcap/exporting/test_export.py",
        "Sizes are fixed;": "tests/jitcap/exporting/test_export.py::test_sizes_that_vary tests/jitcap/exporting/test_export.py::test_damaged_files_are_refused_or_harmless",
        "`custom_op` makes": "tests/jitcap/test_custom_ops.py",
        "`eager.load` reads files": "tests/eager/serialization/test_torch_files.py tests/eager/serialization/test_hostile_files.py tests/eager/serialization/test_torch_files.py::test_what_the_user_allows tests/eager/serialization/test_torch_files.py::test_tensors_that_lie_in_the_file",
        "`eager.utils.data` has PyTorch's": "tests/eager/utils/test_data.py tests/eager/utils/test_workers.py::test_one_seed_gives_one_epoch tests/eager/utils/test_workers.py::test_streams_are_shared_out_by_the_program",
        "* Batches come through shared memory": "tests/eager/utils/test_workers.py::test_leaving_a_loop_ends_its_workers tests/eager/utils/test_workers.py::test_no_memory_is_one_message tests/eager/utils/test_workers.py::test_everything_that_can_be_in_a_batch_arrives",
        "* An exception of a worker": "tests/eager/utils/test_workers.py::test_an_exception_is_raised_where_its_batch_would_be tests/eager/utils/test_workers.py::test_a_worker_that_dies_is_named tests/eager/utils/test_workers.py::test_ctrl_c_is_one_message",
        "* A worker computes on one thread": "tests/eager/utils/test_workers.py::"
        "test_a_fork_in_the_middle_of_a_step "
        "tests/eager/utils/test_workers.py::test_what_a_worker_knows_of_itself",
        "* The OpenBLAS in NumPy's wheel": LIMIT,
        "* `multiprocessing_context=": "tests/eager/utils/test_workers.py::test_one_seed_gives_one_epoch "
        "tests/eager/utils/test_workers.py::test_time_runs_out",
        "The functions of [einops]": "tests/eager/test_einops.py",
        "`eager.save` writes PyTorch's format": "tests/eager/serialization/test_safetensors.py::test_round_trip "
        "tests/eager/serialization/test_torch_files.py::test_whole_modules_are_named_as_users_name_them "
        "tests/eager/serialization/test_torch_files.py::test_checkpoints_of_either_library_are_read_by_both "
        "tests/eager/serialization/test_hostile_files.py::test_the_format_is_what_the_docstring_says "
        "tests/eager/serialization/test_hostile_files.py::test_an_interrupted_save_keeps_the_old_file",
        "`x.__array_namespace__()`": "tests/eager/array_api/test_array_api.py "
        + SELF
        + "test_the_programs_of_the_pages_run",
    },
    "docs/commands.md": {
        "`python -m jitcap doctor`": COMMANDS
        + "test_the_doctor_finds_this_machine_well "
        + COMMANDS
        + "test_the_doctor_says_how_to_mend",
        "`python -m jitcap settings`": COMMANDS + "test_settings_are_one_table",
        "`python -m jitcap explain": COMMANDS + "test_explain_runs_a_program",
        "`python -m jitcap bisect": BISECT + "test_a_pass",
        "If compiled code ends": BISECT + "test_a_signal " + BISECT + "test_a_nan",
        "`python -m eager script.py": PROGRAMS + "test_a_program_for_pytorch",
        "`torch.__version__` is": PROGRAMS + "test_a_program_for_pytorch",
        "`python -m eager names torch`": PROGRAMS + "test_every_missing_name_has_a_reason",
        "`eager.utils.benchmark`": "tests/eager/utils/test_benchmark.py",
        "`python -m jitcap cache list`": COMMANDS
        + "test_the_cache "
        + COMMANDS
        + "test_warm_says_what_it_added",
        "A cache that is filled serves": KEPT + "test_a_second_install_without_a_compiler",
        "After a new compiler": COMMANDS + "test_the_cache",
    },
    "docs/distributed.md": {
        "`eager.distributed` has": SELF + "test_the_extras_exist",
        "This is all in which": RANKS
        + "the_examples_differ_by_three_lines "
        + RANKS
        + "the_example_by_the_launcher",
        "`dist.optim.Zero": RANKS + "three_ranks " + RANKS + "sharding",
        "**Sharding.**": RANKS + "sharding",
        "A unit's parameters": RANKS + "sharding tests/eager/distributed/test_sharded_steps.py",
        "`model.state_dict()` has": RANKS + "sharding",
        "Collectives:": RANKS + "three_ranks",
        "`with dist.whole_batch_draws()": RANKS + "three_ranks",
        "`nn.SyncBatchNorm` normalises": RANKS + "groups_and_meshes",
        "A `DeviceMesh` is": RANKS + "groups_and_meshes",
        "**What goes wrong": RANKS
        + "three_ranks "
        + RANKS
        + "a_rank_that_fails_ends_the_job "
        + FAULTS
        + "ranks_that_differ",
        "**Under `@jit`**": RANKS + "three_ranks",
        "**Communication beside": "tests/codegen/schedule/test_overlap.py",
        "A rank that is killed": FAULTS
        + "a_rank_that_is_killed_in_a_save "
        + FAULTS
        + "a_rank_that_is_killed_while_it_starts",
        "**Checkpoints.**": CHECKPOINT + "three_ranks_and_one",
        "`state` holds tensors": CHECKPOINT
        + "three_ranks_and_one "
        + "tests/eager/utils/test_data.py::"
        + "test_an_epoch_goes_on_with_another_number_of_processes "
        + CHECKPOINT
        + "hostile_folders "
        + CHECKPOINT
        + "the_last_ones_are_kept_and_what_a_killed_save_left_is_removed "
        + CHECKPOINT
        + "a_save_that_is_interrupted_changes_nothing",
        "`future = dcp.async_save": CHECKPOINT
        + "three_ranks_and_one "
        + FAULTS
        + "a_rank_that_is_killed_in_a_save",
        "**Compiling.**": "tests/codegen/runtime/test_turns.py",
        "**GPUs.**": RANKS + "nccl_over_a_stand_in_of_its_interface",
        "**What is not there": LIMIT,
    },
    "docs/plan.md": {
        "`python -m benchmarks.plan` predicts": PLAN,
        "**From compiled": PLAN,
        "**Of the network**": PLAN,
        "What the table says": LIMIT,
        "**Checked here.**": LIMIT,
    },
    "docs/gpu.md": {
        "What there is": DEVICE
        + "test_surface.py tests/eager/device/test_ops.py tests/eager/device/test_sim.py",
        "**Nothing on this page": DEVICE
        + "test_surface.py::test_without_a_device_there_is_one_clear_line",
        "It needs a driver": "tests/eager/cuda/test_device.py::test_why_no_gpu_can_be_used "
        "tests/eager/cuda/test_device.py::test_a_gpu_that_is_too_old_or_busy "
        "tests/eager/cuda/test_device.py::test_a_kernel_is_compiled_for_the_device_and_for_what_lies_on_16_bytes "
        "tests/codegen/targets/triton/test_build.py::test_kernels_are_compiled_in_several_processes",
        "* A copy from ordinary": "tests/eager/cuda/test_device.py::"
        "test_small_copies_do_not_wait_and_their_memory_is_used_again "
        "tests/eager/cuda/test_device.py::test_pinned_memory_is_kept_until_its_copy_is_done",
        "* A tensor that does not begin": "tests/eager/cuda/test_training.py::"
        "test_views_that_are_not_aligned "
        "tests/codegen/targets/triton/test_build.py::test_members_of_a_grouped_update_may_lie_anywhere",
        "* `__dlpack__` and": "tests/eager/cuda/test_dlpack.py::test_what_a_taker_is_told "
        "tests/eager/cuda/test_dlpack.py::test_the_memory_lives_until_it_is_given_back",
        "* What the host does": "tests/eager/cuda/test_training.py::test_what_the_host_does_for_an_op "
        "tests/eager/cuda/test_training.py::test_the_benchmark_of_calls",
        "* What fails is one line": "tests/eager/cuda/test_device.py::test_each_error_is_one_line "
        "tests/eager/cuda/test_device.py::test_why_no_gpu_can_be_used "
        "tests/eager/cuda/test_device.py::test_a_fault_of_a_kernel_is_found_at_a_wait_and_stays",
        "It checks, it does not": LIMIT,
        "* **Memory that": DEVICE + "test_surface.py::test_the_host_gets_no_values_by_accident "
        "tests/eager/device/test_sim.py::test_new_memory_holds_nan "
        "tests/eager/device/test_sim.py::test_memory_outside_every_block_is_refused",
        "* **Streams that": DEVICE + "test_surface.py::test_streams_events_and_a_missing_wait "
        "tests/eager/device/test_sim.py::test_reads_do_not_race_and_neither_do_other_bytes "
        "tests/eager/device/test_surface.py::test_pinned_memory_is_copied_meanwhile",
        "* **Errors that": DEVICE
        + "test_surface.py::test_an_index_out_of_bounds_is_raised_at_the_next_wait_with_its_line",
        "* **Counters**": DEVICE + "test_surface.py::test_memory_is_told",
        "* **A clock": DEVICE
        + "test_sim.py::test_the_clock_is_a_model_of_bytes_launches_and_overlap",
        "* **Faults": DEVICE + "test_sim.py::test_a_refused_launch_changes_nothing "
        "tests/eager/device/test_sim.py::test_a_fault_while_a_kernel_runs_is_raised_at_the_wait_and_stays",
        "* `to`, `cuda`": DEVICE + "test_surface.py::test_there_and_back "
        "tests/eager/device/test_surface.py::test_gradients_cross "
        "tests/eager/device/test_array.py::test_views_are_where_numpys_are",
        '* `"cuda"` without': each(
            SEVERAL,
            "which_is_meant they_do_not_mix each_has_memory_counters_and_waits_of_its_own a_fault_of_one_is_not_the_others each_has_a_generator a_model_on_two_devices_trains_as_on_the_cpu",
        ),
        "* `to` and `copy_` between": SEVERAL
        + "copies_go_from_one_to_the_other "
        + "tests/eager/cuda/test_peers.py::test_copies_between_gpus_are_the_drivers",
        "* Events order": each(
            SEVERAL,
            "a_copy_waits_on_both_sides_and_a_missing_wait_is_a_race events_are_of_the_stream_that_records_them",
        ),
        "* Under `@jit` a step over": each(
            PARTS,
            "training_over_two_devices_is_one_graph training_over_the_cpu_and_a_device values_go_to_the_cpu_and_on_from_there parts_that_need_nothing_of_each_other_overlap_and_the_host_waits_for_none",
        ),
        "* An input is written when": each(
            PARTS,
            "what_is_written_is_read_before a_buffer_of_the_cpu_is_read_before_it_is_written a_check_that_fails_changes_nothing_anywhere a_classifier_with_embeddings",
        ),
        "* Where a value moves": PARTS + "what_moves_in_a_loop_runs_op_by_op",
        "* What a kernel of one": SEVERAL + "what_went_wrong_before_a_copy_is_told_behind_it",
        "* `eager.cuda`": DEVICE + "test_surface.py::test_memory_is_told "
        "tests/eager/device/test_surface.py::test_streams_events_and_a_missing_wait",
        "* A 0-dim": DEVICE + "test_surface.py::test_devices_do_not_mix_but_for_numbers "
        "tests/eager/device/test_beside.py::test_a_program_is_the_cpus",
        "* Each device has": DEVICE
        + "test_surface.py::test_generators_of_devices_draw_the_same_numbers",
        "* `save` and": DEVICE + "test_surface.py::test_save_and_load",
        '* `autocast("cuda")` with': DEVICE + "test_amp.py::test_types_are_those_of_torch_on_gpus "
        "tests/eager/device/test_amp.py::test_a_loop_with_a_scaler_is_the_cpus "
        "tests/eager/device/test_amp.py::test_autocast_around_a_jitted_function_is_guarded",
        "* Ops, forward": DEVICE + "test_ops.py::test_a_call_is_compiled_once_whatever_its_numbers "
        "tests/eager/device/test_ops.py::test_training_is_the_cpus_and_moves_only_what_it_is_given",
        "* What no type holds": "tests/codegen/targets/triton/test_dtypes.py tests/codegen/targets/triton/test_build.py::"
        "test_quotients_are_rounded_correctly_and_subnormal_numbers_kept",
        "* Sorting (`sort`": DEVICE + "test_data_sizes.py::test_sorting "
        "tests/eager/device/test_data_sizes.py::test_sorting_of_rows_of_any_length_with_gradients "
        "tests/eager/device/test_data_sizes.py::test_long_rows_are_sorted_on_the_host "
        "tests/eager/device/test_data_sizes.py::test_searching",
        "* Sums at shared places": LIMIT,
        "* Where data decide a size": DEVICE
        + "test_data_sizes.py::test_they_are_the_cpus_in_one_graph_and_nothing_runs_on_the_host",
        "* What has no kernel": DEVICE
        + "test_ops.py::test_what_has_no_kernel_runs_on_the_host_and_says_so_once",
        "`scripts/device --train 20` trains": DEVICE
        + "test_ops.py::test_training_is_the_cpus_and_moves_only_what_it_is_given",
        "What goes to": DEVICE
        + "test_ops.py::test_training_is_the_cpus_and_moves_only_what_it_is_given",
        "`scripts/machine_code` compiles": "tests/codegen/targets/triton/test_build.py::test_the_table_of_machine_code "
        "tests/codegen/targets/triton/test_build.py::test_full_blocks_are_vectorised_whatever_the_size "
        "tests/codegen/targets/triton/test_kernels.py::test_compiles_without_spills",
        "The loop of `gru`": "tests/codegen/targets/triton/test_build.py::test_each_gpu_has_its_code "
        "tests/codegen/targets/triton/test_build.py::test_what_has_no_kernels_is_a_row",
        "A step over": COMPILED + "a_step_is_one_program_whose_state_stays_where_it_is",
        "* Parameters, optimizer": COMPILED
        + "a_step_is_one_program_whose_state_stays_where_it_is "
        + COMPILED
        + "batches_come_from_anywhere",
        "* The first call": COMPILED
        + "memory_that_is_written_may_be_another "
        + COMPILED
        + "training_is_that_of_the_cpu",
        "* Results stay": COMPILED
        + "results_are_valid_after_later_calls "
        + COMPILED
        + "gradients_that_the_user_keeps_are_kept",
        "* An index out": COMPILED
        + "an_index_out_of_bounds_is_told_at_the_next_wait_and_changes_nothing "
        + COMPILED
        + "what_python_would_raise_is_raised",
        "* A tensor of the CPU": COMPILED + "a_tensor_of_the_cpu_is_another_version",
        "* Programs are kept": "tests/eager/device/test_kept.py::"
        "test_a_step_is_found_again_and_nothing_is_compiled "
        "tests/eager/device/test_kept.py::test_what_no_program_is_is_not_taken "
        "tests/eager/cuda/test_training.py::test_a_kept_program_imports_no_triton",
        "* Sizes that vary are symbols, as on the CPU": "tests/eager/device/test_sizes.py "
        "tests/codegen/targets/triton/test_sizes.py tests/eager/cuda/test_device.py::"
        "test_code_for_sizes_that_are_multiples_of_16",
        "* Sizes that data decide": DEVICE
        + "test_data_sizes.py::test_gradients_and_what_is_copied "
        "tests/eager/device/test_data_sizes.py::test_what_is_wrong_is_told_and_nothing_is_written",
        "* The tiles of such a kernel": "tests/codegen/targets/triton/test_sizes.py::"
        "test_a_version_serves_all_sizes_and_its_text_tells_none",
        "* What asks the device": COMPILED
        + "what_is_asked_of_a_device_is_asked_at_each_call "
        + COMPILED
        + "generators_are_set_as_in_eager",
        "* What is no kernel": COMPILED
        + "what_has_no_kernel_runs_op_by_op_and_says_so_once "
        + COMPILED
        + "values_that_are_looked_at_run_plainly",
        "* Loops of a known length": LOOPS + "they_are_the_cpus_with_gradients "
        "tests/eager/device/test_loops.py::test_kernels_do_not_grow_with_the_length",
        "* Where a value decides": COMPILED
        + "loops_are_programs_and_branches_split tests/eager/device/test_amp.py::"
        "test_a_loop_with_a_scaler_is_the_cpus",
        "`scripts/device --train 20 --jit`": COMPILED + "training_is_that_of_the_cpu",
        "`JITCAP_DEVICE=sim scripts/demo": COMPILED + "batches_come_from_anywhere",
        "Memory that other": DEVICE + "test_surface.py::test_what_is_not_there_raises",
        '`backend="triton"`': "tests/codegen/targets/triton/test_training.py",
    },
    "docs/tour.md": {
        "`loss.backward()` in the function": "tests/jitcap/test_jit.py::"
        "test_a_step_with_its_backward_inside tests/jitcap/graph/test_partition.py::"
        "test_flow_finds_minimum_cuts tests/jitcap/autodiff/test_gradients_outside.py",
        "The program:": TOUR,
        "`jitcap.explain(program)(x, y)`": TOUR,
        "Captured from the bytecode": TOUR,
        "What codegen is handed": TOUR,
        "One nest per value": TOUR,
        "The product is computed inside": TOUR,
        "One kernel, as Python": TOUR,
        "Nothing is temporary": TOUR,
        "The C++: lanes": TOUR
        + " tests/codegen/fuse/test_fusion.py::test_equal_kernels_are_emitted_once",
        "The same stages for a softmax": LINKS + " tests/test_golden.py::test_golden",
    },
    "docs/performance.md": {
        "`jitcap.profile()` says": PROFILE + "a_slow_line_is_the_first_row",
        "Line 24 calls": PROFILE + "backward_callbacks_loops_and_threads",
        "* `slow.py:19, of": PROFILE + "backward_callbacks_loops_and_threads",
        "* A kernel or a product": PROFILE + "a_slow_line_is_the_first_row",
        "* A row that is called": PROFILE + "backward_callbacks_loops_and_threads",
        "* Guards and launches": PROFILE
        + "results_are_those_without_and_the_object_stays_as_it_is",
        "* Python outside": PROFILE + "ops_of_eager_have_their_shapes_and_lines",
        "* `capture`, `passes`": PROFILE + "splits_errors_recompiles_nesting_and_resets",
        '`p.table(group="line")`': PROFILE
        + "rows_by_module_also_of_layers_that_share_what_was_captured",
        "`jitcap.profile(memory=True)`": PROFILE + "memory_over_time_and_who_holds_it",
        "On a simulated GPU": DEVICE
        + "test_profile_of_device.py::test_kernels_and_copies_by_the_model",
        "Without a word in the program": PROFILE + "debugging_tells_of_each_kernel",
        "`eager.profiler` has": "tests/eager/test_profiler.py::test_events_and_averages tests/eager/test_profiler.py::test_options_that_would_do_nothing_raise",
        "Other profilers see": PROFILE + "results_are_those_without_and_the_object_stays_as_it_is",
        "The rows sum to": PROFILE + "results_are_those_without_and_the_object_stays_as_it_is",
        "`roof` is the share": PROFILE + "the_peaks_are_kept",
        '`jit(fn, mode="background")`': BACKGROUND,
        "A plain step of `gpt`": LIMIT,
        "Nothing else changes": BACKGROUND + " tests/never_wrong/test_never_wrong.py",
        "* `step.wait()` waits": BACKGROUND + "::test_what_shows_it",
        "* One version is compiled": BACKGROUND + "::test_settings_are_those_of_the_call",
        "* A `backward()` outside": BACKGROUND,
        "* Calls wait where": BACKGROUND + " " + RANKS + "three_ranks",
        "* When the program ends": "tests/codegen/runtime/test_beside.py",
        "* `check_nans=True` raises": BACKGROUND + "::test_modes_that_are_not_there",
        "`python -m benchmarks.roofline`": ROOFLINE,
        "![Each step by its parts": LINKS,
        "The picture is of one": ROOFLINE,
        "What is left": LIMIT,
        "* Convolutions": LIMIT,
        "* Attention computes": LIMIT,
        "* Gathers and scatters": LIMIT,
        "* Long straight lines": LIMIT,
        "* Functions": LIMIT,
        "* Sums down long": LIMIT,
        "* A product of 8 rows": LIMIT,
        "* A cache in one tensor": "tests/codegen/schedule/test_place_writes.py::"
        "test_a_cache_is_written_where_it_lies",
        "* Calls of a few": LIMIT,
    },
    "docs/debugging.md": {
        "**Is it the compiler?**": "tests/jitcap/test_jit.py::test_stance_eager_runs_the_function_itself tests/jitcap/verify/test_verify.py",
        "**What was compiled?**": SELF + "test_what_is_counted "
        "tests/jitcap/test_jit.py::test_guards_recompile_and_say_why",
        "**How to read it.**": "tests/jitcap/base/test_texts.py tests/jitcap/graph/test_listing.py tests/jitcap/test_explain.py",
        "A record begins with its kind": BREAKS + "test_the_record " + BREAKS + "test_same_answer",
        **{
            f"* **{kind}**": BREAKS
            + "test_every_kind_is_raised_and_says_something_of_its_own "
            + KINDS
            for kind in breaks.KINDS
        },
        '* "**runs as plain': BREAKS + "test_same_answer",
        '* "**ran a call': "tests/jitcap/capture/test_limits.py",
        '* "**runs op by op**"': "tests/codegen/targets/cpp/test_no_compiler.py::test_it_runs_and_says_so",
        '* "**is compiled for each': MESSAGES,
        '* "**are traced by': "tests/jitcap/by_dispatch/test_by_dispatch.py",
        '* "**runs it again': MESSAGES,
        '* "**cannot write**"': MESSAGES,
        "**Does it run plainly?**": SELF
        + "test_the_limits_are_those_of_the_code tests/jitcap/capture/test_limits.py",
        "**Why did it split?**": "tests/jitcap/capture/test_breaks.py::test_the_record tests/jitcap/capture/test_split.py::test_fullgraph_lists_every_split "
        "tests/jitcap/test_jit.py::test_stance_fail_on_recompile",
        "`JITCAP_DUMP=dir`": "tests/jitcap/test_jit.py::test_dump_writes_files_that_run",
        "`explain(fn)(*args).html": "tests/jitcap/report/test_page.py",
        "Keys: `j` and `k`": "tests/browser/run.py",
        "**Does it compile for long?**": "tests/codegen/runtime/test_progress.py",
        "`CHECK=1` verifies": "tests/jitcap/graph/test_graph.py::test_verify_names_a_use_before_definition",
        "**Which stage is wrong?**": SELF + "test_the_backends_are_the_documented_ones",
        "Every call is the plain one": "tests/jitcap/verify/test_verified_programs.py::"
        "test_the_call_is_the_plain_one",
        "* the returned value": "tests/jitcap/verify/test_verify.py::test_a_returned_structure_that_is_wrong "
        "tests/jitcap/verify/test_verify.py::test_a_view_with_wrong_strides "
        "tests/jitcap/verify/test_verify.py::test_an_alias_that_is_a_copy",
        "* every object that was read": "tests/jitcap/verify/test_verify.py::test_an_effect_that_is_dropped "
        "tests/jitcap/verify/test_verify.py::test_a_write_that_is_dropped",
        "* what is printed and logged": "tests/jitcap/verify/test_verify.py::test_a_wrong_print "
        "tests/jitcap/verify/test_verify.py::test_a_wrong_log_record "
        "tests/jitcap/verify/test_verified_programs.py::test_warnings_are_given_once",
        "* the gradients that the result": "tests/jitcap/verify/test_verify.py::"
        "test_a_wrong_derivative_of_what_is_passed_on",
        "* an exception on one side": "tests/jitcap/verify/test_verify.py::"
        "test_an_exception_on_one_side_only",
        "Integers, masks and random": "tests/jitcap/verify/test_verify.py::test_integers_are_exact "
        "tests/jitcap/verify/test_verified_programs.py::test_noise_is_measured_per_element "
        + SELF
        + "test_the_limits_are_those_of_the_code",
        "A difference raises": "tests/jitcap/verify/test_verify.py",
        "`VerifyError` names a file": REDUCE + "test_verify_writes_a_file",
        "The graph is reduced first": REDUCE
        + "test_the_smallest_graph "
        + BISECT
        + "test_a_signal",
        "Inputs are random numbers": REDUCE + "test_inputs",
        "A fault of capture is": SOURCE + "test_objects " + BISECT + "test_a_fault_of_capture",
        "There is no file for": REDUCE + "test_no_file",
        "`python -m jitcap bisect script.py` does": BISECT + "test_a_pass",
        "A function that is split": "tests/jitcap/capture/test_split.py::test_chopped_and_verified "
        "tests/jitcap/verify/test_verified_programs.py::test_a_nested_jit_runs_plainly",
        "Compiled versions are kept": "tests/jitcap/store/test_kept_processes.py "
        "tests/jitcap/store/test_kept.py",
        "What tells two functions apart": "tests/jitcap/store/test_kept.py tests/jitcap/store/test_kept_crafted.py "
        "tests/codegen/runtime/test_cache.py",
        "Numbers below the smallest normal": "tests/codegen/targets/cpp/test_cpu.py::"
        "test_a_team_keeps_or_flushes_denormal_numbers_as_its_caller_does",
        "Each is an environment variable": "tests/jitcap/test_config.py::test_order_of_precedence "
        + SELF
        + "test_every_setting_is_documented",
        "Some are of the environment": SELF + "test_every_setting_is_documented",
        "The cache has a limit": SELF + "test_every_setting_is_documented "
        "tests/codegen/targets/cpp/test_cpu.py::test_number_of_threads tests/jitcap/store/test_kept_processes.py",
    },
    "docs/glossary.md": {
        "Terms as they are used here": GLOSSARY,
        "**": GLOSSARY,
    },
    "docs/first_hour.md": {"": "tests/test_first_hour.py"},
    "docs/pytorch.md": {
        "`import eager as torch` in": "tests/test_pytorch_page.py tests/eager/programs/test_programs.py",
        "The tables are programs": "tests/test_pytorch_page.py",
        "`DataLoader` has worker": "tests/eager/utils/test_workers.py",
        "`utils.checkpoint` saves": "tests/eager/base/test_options.py",
        "`torch.compile` is": "tests/eager/base/test_compilation.py",
        "Put it on the whole": "tests/training/test_against_torch.py::test_a_schedule_compiles_once "
        "tests/eager/device/test_compiled.py",
    },
    "docs/shapes.md": {
        "A size is static at first": SELF + "test_the_programs_of_the_pages_run "
        "tests/jitcap/sizes/test_sizes.py::test_training_steps_compile_twice",
        "* `jit(dynamic=True)`": "tests/jitcap/sizes/test_sizes.py::test_dynamic",
        "* `mark_dynamic": "tests/jitcap/sizes/test_sizes.py::test_marks",
        "* Sizes 0 and 1": "tests/jitcap/sizes/test_sizes.py::test_a_size_of_one",
        "* Sizes that have been equal": "tests/jitcap/sizes/test_sizes.py::test_sizes_that_part_ways",
        "* What else differs": "tests/jitcap/capture/test_batches_of_objects.py",
        "* An int that varies": "tests/jitcap/sizes/test_sizes.py::test_a_part_whose_length_is_an_int",
        "* A version for any size is kept": "tests/jitcap/store/test_kept_sizes.py::"
        "test_another_process_with_other_sizes_compiles_nothing",
        "* A decision of the program": "tests/jitcap/sizes/test_sizes.py::"
        "test_a_decision_on_a_size_is_a_guard tests/jitcap/sizes/test_sizes.py::"
        "test_an_assertion_narrows_a_size",
        "* A loop over `range": "tests/jitcap/sizes/test_sizes_loops.py::test_loops_of_lengths_that_vary "
        "tests/jitcap/sizes/test_sizes_loops.py::test_recurrent_models_over_lengths "
        "tests/jitcap/sizes/test_sizes_loops.py::test_bodies_have_sizes_that_vary",
        "* What needs the size itself": "tests/jitcap/sizes/test_sizes.py::test_what_fixes_a_size",
        "* A gradient that is asked for outside": "tests/jitcap/sizes/test_sizes_gradients.py::test_models "
        "tests/jitcap/sizes/test_sizes_gradients.py::test_sizes_of_two_calls_at_once "
        "tests/jitcap/sizes/test_sizes_gradients.py::test_questions_of_a_backward",
        "* Triton kernels take sizes": "tests/codegen/targets/triton/test_sizes.py tests/eager/device/test_sizes.py",
        "* The parts of a program that is split": "tests/jitcap/sizes/test_sizes.py::"
        "test_a_program_that_is_split tests/jitcap/sizes/test_sizes.py::test_a_part_that_takes_no_symbols",
        "* A tensor from outside may be": "tests/jitcap/sizes/test_sizes.py::test_tensors_with_strides "
        "tests/jitcap/sizes/test_sizes.py::test_a_layout_is_guarded",
        "* A size that data decide": "tests/jitcap/sizes/test_sizes_of_data.py::test_programs "
        "tests/jitcap/sizes/test_sizes_of_data.py::test_what_is_expected_is_checked "
        "tests/jitcap/sizes/test_sizes_of_data.py::test_what_python_asks",
        "`explain(f, dynamic=True)": SELF + "test_the_page_of_sizes_shows_what_is_printed",
    },
    "docs/control_flow.md": {
        "`eager.cond`, `eager.switch`": "tests/jitcap/graph/test_control_flow.py::"
        "test_eager_runs_what_is_taken tests/jitcap/graph/test_control_flow.py::test_as_torch",
        "Under `@jit` each function": SELF + "test_the_programs_of_the_pages_run "
        "tests/jitcap/graph/test_control_flow.py::test_the_print_captures_to_the_same_graph "
        "tests/jitcap/capture/test_control_flow.py::test_one_graph_and_the_results_of_plain_python",
        "One of them runs": "tests/jitcap/capture/test_control_flow.py::test_one_arm_runs "
        "tests/jitcap/capture/test_control_flow.py::test_triton_runs_op_by_op "
        + COMPILED
        + "loops_are_programs_and_branches_split",
        "What the functions return": "tests/jitcap/graph/test_control_flow.py::"
        "test_arms_that_differ_are_named tests/jitcap/graph/test_control_flow.py::"
        "test_results_share_no_memory",
        "Gradients go through": "tests/jitcap/capture/test_control_flow.py::test_gradients_inside "
        "tests/jitcap/graph/test_control_flow.py::test_zeros_for_what_an_arm_does_not_touch "
        "tests/jitcap/capture/test_control_flow.py::"
        "test_a_result_requires_a_gradient_if_it_does_in_one_arm",
        "They go through a": "tests/jitcap/autodiff/test_while_gradients.py "
        "tests/jitcap/graph/test_control_flow.py::test_the_gradient_of_an_unbounded_loop_is_refused",
        "Under `@jit` the functions": "tests/jitcap/capture/test_control_flow.py::"
        "test_an_effect_of_an_arm_is_refused tests/jitcap/capture/test_draws_that_data_count.py",
        "Under `@jit` a plain `if`": "tests/jitcap/capture/test_branches.py::test_one_graph "
        + SELF
        + "test_the_programs_of_the_pages_run",
        "Both ways are read": "tests/jitcap/capture/test_branches.py::test_one_graph "
        "tests/jitcap/capture/test_branches.py::test_what_splits_is_right "
        "tests/jitcap/capture/test_objects_of_branches.py::test_both_ways_make_one",
        "Where the ways meet": "tests/jitcap/capture/test_branches.py::test_one_graph",
        "Python gives no gradient, and": "tests/jitcap/capture/test_branches.py::test_one_graph "
        "tests/jitcap/capture/test_branches.py::test_what_splits_is_right",
        "`max` and `min` of": "tests/never_wrong/language/control_flow.py",
        "What one way prints": "tests/jitcap/capture/test_calls_in_branches.py",
        "It splits where that": "tests/jitcap/capture/test_branches.py::test_what_splits_is_right "
        "tests/jitcap/capture/test_branches.py::test_the_record_says_why",
        "A `while` whose": "tests/jitcap/capture/test_while_loops.py::test_it_answers_as_python "
        + SELF
        + "test_the_programs_of_the_pages_run",
        "So does a `for`": "tests/jitcap/capture/test_while_loops.py::test_it_answers_as_python",
        "One round is": "tests/jitcap/capture/test_while_loops.py::test_it_answers_as_python",
        "What cannot be said": "tests/jitcap/capture/test_while_loops.py::test_it_answers_as_python "
        "tests/jitcap/autodiff/test_while_gradients.py::test_a_loop_that_is_none_is_given_up_soon",
        "It may have gradients": "tests/jitcap/autodiff/test_while_gradients.py",
        "`eager.scan(combine_fn": "tests/eager/control_flow/test_scan.py tests/jitcap/graph/test_scan.py",
        "Under `@jit` a scan": "tests/jitcap/graph/test_scan.py::test_the_code_does_not_depend_on_the_length "
        "tests/jitcap/graph/test_scan.py::test_products_that_need_not_wait_leave_the_loop "
        "tests/jitcap/graph/test_scan.py::test_the_gradient_of_weights_is_one_product_after_the_loop "
        "tests/codegen/fuse/test_bodies.py::test_a_scan",
        "Gradients of any order": "tests/jitcap/graph/test_scan.py::test_gradients_of_first_and_second_order "
        "tests/jitcap/graph/test_scan.py::test_draws_are_those_of_the_loop",
        "A Python loop becomes": "tests/jitcap/capture/test_for_loops.py",
        "The first step may": "tests/jitcap/capture/test_for_loops.py",
        "A loop over a range whose": "tests/jitcap/sizes/test_sizes_loops.py",
        "On a device a scan": LOOPS + "they_are_the_cpus_with_gradients "
        "tests/eager/device/test_loops.py::test_they_run_on_arrays_of_the_host",
        "A loop over the layers": "tests/jitcap/passes/test_repeats.py",
    },
    "docs/limits.md": {
        "* A program that looks at frames": "tests/never_wrong/language/frames.py",
        "* A recursion of more": "tests/jitcap/capture/test_limits.py::test_a_recursion_is_as_deep_as_in_python",
        "* A print, a log record": "tests/never_wrong/text/output.py",
        "What is not captured splits": "tests/jitcap/capture/test_breaks.py::test_same_answer",
        "* Python 3.11, 3.12": SELF + "test_another_python_is_said",
        "* Sizes that vary are symbols": "tests/jitcap/sizes/test_sizes.py tests/eager/device/test_sizes.py "
        "tests/eager/base/test_options.py::test_sizes_that_vary",
        "* A cache (`functools.lru_cache`)": "tests/jitcap/capture/test_package_caches.py "
        "tests/never_wrong/state_between_calls/caches.py",
        "* An option of PyTorch's": "tests/eager/base/test_options.py",
        "* The length of a list": "tests/jitcap/capture/test_limits.py::"
        "test_a_list_that_only_grows_is_not_a_version_for_each_length",
        "* What Python asks of a size": SELF + "test_sizes_that_data_decide "
        "tests/jitcap/sizes/test_sizes_of_data.py::test_what_python_asks",
        "* A branch on a tensor's value": "tests/jitcap/capture/test_split.py "
        "tests/jitcap/capture/test_branches.py::test_what_splits_is_right "
        "tests/jitcap/capture/test_breaks.py::test_what_constants_decide_splits_nothing",
        "* The cache on disk": "tests/jitcap/store/test_kept_crafted.py "
        "tests/codegen/runtime/test_cache.py::test_writable_by_others_is_refused",
        "* Some functions have no compiled": "tests/eager/ops/test_called_back.py "
        "tests/jitcap/test_callbacks.py",
        "What is called back besides": "tests/jitcap/test_callbacks.py "
        "tests/codegen/targets/cpp/test_library_signal.py::test_complex_arithmetic",
        "* Files of `torch.save`": "tests/eager/serialization/test_hostile_files.py::test_crafted_files",
        "* `opt.state` has": "tests/eager/optim/test_state.py",
        "* Inference tensors are those": "tests/eager/core/test_inference_mode.py "
        "tests/jitcap/capture/test_inference_mode.py",
        "* `func.vmap` calls": "tests/eager/autograd/test_vmap.py",
        "* `autograd.detect_anomaly` inside": "tests/eager/autograd/test_func_maps.py::"
        "test_anomalies_in_a_compiled_function",
        "* `autograd.graph.saved_tensors_hooks` inside": "tests/eager/autograd/test_autograd.py::"
        "test_hooks_on_what_is_saved_split_a_compiled_function",
        "* `x[i]`, where `i` is a tensor": "tests/eager/ops/test_indexing.py::"
        "test_an_index_tensor_without_dimensions_gives_a_view "
        "tests/eager/ops/test_indexing.py::test_it_leaves_a_compiled_function_as_a_view",
        "* What is computed from a subclass of `Tensor`": (
            "tests/eager/core/test_tensor.py::test_a_tensor_under_a_subclass"
        ),
        "* `z.conj()` is a copy": "tests/eager/core/test_tensor.py::"
        "test_parts_of_complex_numbers_are_views",
        "* A lazy module": "tests/eager/nn/test_lazy.py::test_first_called_in_a_compiled_function",
        "* A clock (": "tests/never_wrong/test_never_wrong.py::test_case",
        "* Sparse tensors": "tests/eager/sparse/test_sparse.py",
        "* Nested tensors": SELF + "test_what_is_not_there",
        "* `@jit` splits around some collectives": RANKS + "three_ranks",
        "* Tensors live on the CPU": DEVICE + "test_surface.py tests/eager/cuda/test_training.py",
        "* GPU:": "tests/codegen/targets/triton/test_interpreter.py tests/codegen/targets/triton/test_build.py "
        "tests/codegen/targets/triton/test_device.py tests/eager/cuda/test_device.py",
        "* Windows and macOS": LIMIT,
    },
}
