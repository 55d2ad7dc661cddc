"""`eager.distributed`: training in several processes, under PyTorch's names. MPI moves the data.

    mpiexec -n 4 python train.py

    dist.init_process_group("mpi")
    model = DistributedDataParallel(model)

    engine          what a message-passing library does for a group; errors
    mpi             that, on MPI
    meeting         ranks that no launcher of MPI started; pmi: the process that they ask
    nccl            that, on NCCL for the memory of GPUs
    groups          process groups, ranks, timeouts
    subgroups       a world cut into several
    work            a collective under way
    ops             the op records of collectives
    collectives     of tensors, in place
    functional      new tensors, with derivatives; nn.functional: under PyTorch's older names
    objects         of Python objects
    data_parallel   gradients averaged over the ranks
    sync_batch_norm statistics over the batches of all ranks
    draws           random draws that do not depend on the number of ranks
    device_mesh     ranks as an array, with a group along each dimension
    elsewhere       names of PyTorch's that are not there, and what to use
    optim           the state of an optimizer spread over the ranks
    shards          tensors of which each rank has its rows
    fsdp            parameters, gradients and state spread over the ranks
    state_dict      the states of models and optimizers, of parts or of the whole
    tensor          names of layouts that are not there

Imported when it is named. Programs ask `is_available()` first, as with PyTorch's builds.
"""

from __future__ import annotations

from typing import Any

from eager.base.stub_modules import absent as _absent_module
from eager.distributed import device_mesh as device_mesh
from eager.distributed import fsdp as fsdp
from eager.distributed import functional as functional
from eager.distributed import nn as nn
from eager.distributed import optim as optim
from eager.distributed import rpc as rpc
from eager.distributed import state_dict as state_dict
from eager.distributed import tensor as tensor
from eager.distributed.collectives import P2POp as P2POp
from eager.distributed.collectives import all_gather as all_gather
from eager.distributed.collectives import all_gather_into_tensor as all_gather_into_tensor
from eager.distributed.collectives import all_reduce as all_reduce
from eager.distributed.collectives import all_to_all as all_to_all
from eager.distributed.collectives import all_to_all_single as all_to_all_single
from eager.distributed.collectives import barrier as barrier
from eager.distributed.collectives import batch_isend_irecv as batch_isend_irecv
from eager.distributed.collectives import broadcast as broadcast
from eager.distributed.collectives import gather as gather
from eager.distributed.collectives import irecv as irecv
from eager.distributed.collectives import isend as isend
from eager.distributed.collectives import monitored_barrier as monitored_barrier
from eager.distributed.collectives import recv as recv
from eager.distributed.collectives import reduce as reduce
from eager.distributed.collectives import reduce_scatter as reduce_scatter
from eager.distributed.collectives import reduce_scatter_tensor as reduce_scatter_tensor
from eager.distributed.collectives import scatter as scatter
from eager.distributed.collectives import send as send
from eager.distributed.data_parallel import DistributedDataParallel as DistributedDataParallel
from eager.distributed.device_mesh import DeviceMesh as DeviceMesh
from eager.distributed.device_mesh import init_device_mesh as init_device_mesh
from eager.distributed.draws import whole_batch_draws as whole_batch_draws
from eager.distributed.elsewhere import absent
from eager.distributed.engine import DistBackendError as DistBackendError
from eager.distributed.engine import DistError as DistError
from eager.distributed.engine import DistTimeoutError as DistTimeoutError
from eager.distributed.engine import ReduceOp as ReduceOp
from eager.distributed.engine import default_pg_timeout as default_pg_timeout
from eager.distributed.groups import Backend as Backend
from eager.distributed.groups import DebugLevel as DebugLevel
from eager.distributed.groups import GroupMember as GroupMember
from eager.distributed.groups import ProcessGroup as ProcessGroup
from eager.distributed.groups import destroy_process_group as destroy_process_group
from eager.distributed.groups import get_backend as get_backend
from eager.distributed.groups import get_backend_config as get_backend_config
from eager.distributed.groups import get_debug_level as get_debug_level
from eager.distributed.groups import (
    get_default_backend_for_device as get_default_backend_for_device,
)
from eager.distributed.groups import get_global_rank as get_global_rank
from eager.distributed.groups import get_group_rank as get_group_rank
from eager.distributed.groups import get_node_local_rank as get_node_local_rank
from eager.distributed.groups import get_pg_count as get_pg_count
from eager.distributed.groups import get_process_group_ranks as get_process_group_ranks
from eager.distributed.groups import get_rank as get_rank
from eager.distributed.groups import get_world_size as get_world_size
from eager.distributed.groups import group as group
from eager.distributed.groups import init_process_group as init_process_group
from eager.distributed.groups import is_available as is_available
from eager.distributed.groups import is_backend_available as is_backend_available
from eager.distributed.groups import is_gloo_available as is_gloo_available
from eager.distributed.groups import is_initialized as is_initialized
from eager.distributed.groups import is_mpi_available as is_mpi_available
from eager.distributed.groups import is_nccl_available as is_nccl_available
from eager.distributed.groups import is_torchelastic_launched as is_torchelastic_launched
from eager.distributed.groups import is_ucc_available as is_ucc_available
from eager.distributed.groups import is_xccl_available as is_xccl_available
from eager.distributed.groups import new_group as new_group
from eager.distributed.groups import set_debug_level as set_debug_level
from eager.distributed.groups import supports_complex as supports_complex
from eager.distributed.objects import all_gather_object as all_gather_object
from eager.distributed.objects import broadcast_object_list as broadcast_object_list
from eager.distributed.objects import gather_object as gather_object
from eager.distributed.objects import recv_object_list as recv_object_list
from eager.distributed.objects import scatter_object_list as scatter_object_list
from eager.distributed.objects import send_object_list as send_object_list
from eager.distributed.subgroups import new_subgroups as new_subgroups
from eager.distributed.subgroups import (
    new_subgroups_by_enumeration as new_subgroups_by_enumeration,
)
from eager.distributed.subgroups import split_group as split_group
from eager.distributed.sync_batch_norm import sync_batch_norm as sync_batch_norm
from eager.distributed.work import Work as Work

algorithms = _absent_module("distributed.algorithms", "all ranks take the same number of steps", "")
_absent_module("distributed.algorithms.join", "all ranks take the same number of steps", "")
all_gather_single, reduce_scatter_single = all_gather_into_tensor, reduce_scatter_tensor


def __getattr__(name: str) -> Any:
    raise absent(__name__, name)
