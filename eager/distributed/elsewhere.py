"""At the edge: names of PyTorch's `distributed` that are not there. a name -> an AttributeError
that says what to use.
"""

from __future__ import annotations

from typing import Final

from eager.base.misspelled import unknown

_INSTEAD: Final = {
    "ranks find each other by their launcher, mpiexec -n 4 python train.py, without stores": (
        "Store", "TCPStore", "FileStore", "HashStore", "PrefixStore", "rendezvous",
        "register_rendezvous_handler", "DistNetworkError", "DistStoreError", "QueueEmptyError",
    ),
    "what a collective does is said by its arguments": (
        "AllToAllOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BarrierOptions",
        "BroadcastOptions", "GatherOptions", "ReduceOptions", "ReduceScatterOptions",
        "ScatterOptions",
    ),
    "DistributedDataParallel packs gradients by itself, and has no hooks of communication": (
        "BuiltinCommHookType", "GradBucket", "Reducer",
    ),
    "start several collectives with async_op=True, or concatenate the tensors": (
        "all_gather_coalesced", "all_reduce_coalesced",
    ),
    "its names are those of eager.distributed": (
        "c10d_logger", "constants", "distributed_c10d", "logging_handlers",
    ),
    "objects go between ranks by send_object_list and its like; there are no remote calls": (
        "autograd", "remote_device",
    ),
    "use ReduceOp": ("reduce_op",),
    "use init_process_group('mpi'), which gives a ProcessGroup": (
        "BackendConfig", "ProcessGroupGloo", "ProcessGroupMPI", "ProcessGroupNCCL",
    ),
    "new_group makes a group of the ranks that go on; a rank that fails ends the job": (
        "shrink_group",
    ),
    "python -m jitcap.launch starts the processes": ("elastic", "launch", "run"),
    "parameters are spread by dist.fsdp.fully_shard; other layouts are not there": ("pipelining",),
    "call set_debug_level": ("config", "set_debug_level_from_env"),
    "use breakpoint() on one rank, `if dist.get_rank() == 0:`": ("breakpoint",),
    "the profiler has the collectives": ("record_comm",),
}  # fmt: skip
INSTEAD: Final = {name: how for how, names in _INSTEAD.items() for name in names}


def absent(module: str, name: str) -> AttributeError:
    """The error for a name that `module` does not have."""
    if name not in INSTEAD:
        return unknown(module, name)
    return AttributeError(f"module {module!r} has no {name!r}: {INSTEAD[name]}", name=name)
