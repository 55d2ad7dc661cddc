"""Cases of the backend "nccl" on simulated devices, over a stand-in of nccl4py's interface by MPI:
`mpiexec -n 2 python ranks_nccl.py`, as `ranks`."""

import contextlib
import os
import sys
import types

import numpy as np
import pytest
import ranks

import eager
import eager.distributed as dist
from eager import nn
from eager.nn.parallel import DistributedDataParallel

OPS = {"SUM": "SUM", "PROD": "PROD", "MIN": "MIN", "MAX": "MAX", "AVG": "SUM"}  # MPI's
CALLS = []


class UniqueId:
    def __init__(self, text):
        self.text = text

    def __bytes__(self):
        return self.text

    from_bytes = classmethod(lambda cls, text: cls(text))


class Communicator:
    """Device memory goes by way of the host, by MPI; NCCL's checks of counts and dtypes."""

    @classmethod
    def init(cls, nranks, rank, unique_id, config=None):
        made = cls()
        assert bytes(unique_id) == b"id" * 64
        made.comm = MPI.COMM_WORLD if nranks > 1 else MPI.COMM_SELF
        made.nranks, made.rank = nranks, rank
        return made

    def _do(self, name, take, give, call, stream):
        assert isinstance(stream, int) and all(
            t is None or (t.device.type == "cuda" and t.is_contiguous()) for t in (take, give)
        )
        CALLS.append(name)
        sent = (
            None
            if take is None
            else np.ascontiguousarray(
                take.cpu().float().numpy()
                if take.dtype in (eager.bfloat16, eager.float16)
                else take.cpu().numpy()
            )
        )
        got = (
            None
            if give is None
            else np.empty(tuple(give.shape), sent.dtype if sent is not None else np.uint8)
        )
        call(sent, got)
        if give is not None:
            give.copy_(eager.from_numpy(got).to(give.dtype))

    def allreduce(self, sendbuf, recvbuf, op, *, stream=None):
        def call(sent, got):
            self.comm.Allreduce(sent, got, getattr(MPI, OPS[op]))
            if op == "AVG":
                got /= self.nranks

        self._do("allreduce", sendbuf, recvbuf, call, stream)

    def reduce(self, sendbuf, recvbuf, op, root=None, *, stream=None):
        self._do(
            "reduce",
            sendbuf,
            recvbuf,
            lambda s, g: self.comm.Reduce(s, g, getattr(MPI, OPS[op]), root),
            stream,
        )

    def reduce_scatter(self, sendbuf, recvbuf, op, *, stream=None):
        assert sendbuf.numel() == recvbuf.numel() * self.nranks
        self._do(
            "reduce_scatter",
            sendbuf,
            recvbuf,
            lambda s, g: self.comm.Reduce_scatter_block(s, g, getattr(MPI, OPS[op])),
            stream,
        )

    def broadcast(self, sendbuf, recvbuf, root, *, stream=None):
        def call(sent, got):
            got[...] = sent
            self.comm.Bcast(got, root)

        self._do("broadcast", sendbuf, recvbuf, call, stream)

    def allgather(self, sendbuf, recvbuf, *, stream=None):
        assert recvbuf.numel() == sendbuf.numel() * self.nranks
        self._do("allgather", sendbuf, recvbuf, self.comm.Allgather, stream)

    def send(self, sendbuf, peer, *, stream=None):
        sent = sendbuf.cpu().numpy().copy()
        CALLS.append("send")
        self.sending = [*getattr(self, "sending", []), (self.comm.Isend(sent, peer), sent)]

    def recv(self, recvbuf, peer, *, stream=None):
        self._do("recv", None, recvbuf, lambda s, g: self.comm.Recv(g, peer), stream)

    def destroy(self):
        CALLS.append("destroy")


core = types.ModuleType("nccl.core")
core.__dict__.update({name: name for name in OPS}, UniqueId=UniqueId, Communicator=Communicator,
                     get_unique_id=lambda: UniqueId(b"id" * 64), group=contextlib.nullcontext)  # fmt: skip


def on_gpu(values, dtype=eager.float32):
    return eager.tensor(values, dtype=dtype).cuda()


def collectives(r, n):
    assert dist.get_backend() == "nccl" and dist.get_backend_config() == "cpu:mpi,cuda:nccl"
    CALLS.clear()
    for name in "float32 bfloat16 int64 uint8 float64".split():
        x = on_gpu([r + 1, 2, 3], getattr(eager, name))
        dist.all_reduce(x)
        assert x.is_cuda and x.tolist() == [3, 4, 6]
    x = on_gpu([r == 0, False], eager.bool)
    dist.all_reduce(x)
    assert x.tolist() == [True, False]
    x = on_gpu([[r + 1.0, 2], [3, 4]]).t()  # not contiguous
    work = dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True)
    assert work.wait() and x.tolist() == [[1.5, 3], [2, 4]]
    x = on_gpu([r + 1.0])
    dist.reduce(x, 1)
    assert x.item() == (3 if r == 1 else 1)
    dist.broadcast(x, 1)
    assert x.item() == 3
    out = on_gpu([0.0] * 4)
    dist.all_gather_into_tensor(out, on_gpu([r, r + 0.5]))
    assert out.tolist() == [0, 0.5, 1, 1.5]
    dist.all_gather_into_tensor(out, out[2 * r : 2 * r + 2])
    assert out.tolist() == [0, 0.5, 1, 1.5]
    out = on_gpu([0.0])
    dist.reduce_scatter_tensor(out, on_gpu([r + 1.0, 10.0]))
    assert out.item() == (3 if r == 0 else 20)
    out = on_gpu([0.0] * (2 + 2 * r))
    dist.all_to_all_single(out, on_gpu([r] * 3), [r + 1] * 2, [1, 2])
    assert out.tolist() == [0] * (r + 1) + [1] * (r + 1)
    if r == 0:
        dist.send(on_gpu([7.0]), 1)
    else:
        out = on_gpu([0.0])
        assert dist.recv(out, 0) == 0 and out.item() == 7
    each = [on_gpu([0.0]) for _ in range(n)]
    dist.all_gather(each, on_gpu([r + 1.0]))  # lists go by way of the host
    assert [t.item() for t in each] == [1, 2]
    dist.barrier()
    assert set(CALLS) == {
        "allreduce",
        "reduce",
        "broadcast",
        "allgather",
        "reduce_scatter",
        *("send", "recv"),
    }
    x = eager.ones(2)
    dist.all_reduce(x)  # of the host, by MPI
    assert x.tolist() == [2, 2]
    for text, wrong in (
        (
            "NCCL has no ReduceOp.BAND",
            lambda: dist.all_reduce(on_gpu([1], eager.int64), dist.ReduceOp.BAND),
        ),
        ("does not reduce eager.int16", lambda: dist.all_reduce(on_gpu([1], eager.int16))),
        (
            "of the host and of a GPU",
            lambda: dist.all_gather_into_tensor(eager.ones(2), on_gpu([1.0])),
        ),
    ):
        with pytest.raises(dist.DistBackendError, match=text):
            wrong()
    alone = dist.new_group([r])
    dist.all_reduce(x.cuda(), group=alone)
    dist.destroy_process_group(alone)
    assert CALLS[-1] == "destroy"


def data_parallel(r, n):
    model = DistributedDataParallel(nn.Linear(2, 1, bias=False).cuda())
    opt = eager.optim.AdamW(model.parameters(), 0.1)
    for _ in range(2):
        opt.zero_grad()
        model(on_gpu([[r + 1.0, 1.0]])).sum().backward()
        assert model.module.weight.grad.tolist() == [[1.5, 1]]
        opt.step()
    said = [None] * n
    dist.all_gather_object(said, model.module.weight.tolist())
    assert said[0] == said[1]


if __name__ == "__main__":
    from mpi4py import MPI

    os.environ["JITCAP_DEVICE"] = "sim"
    sys.modules["nccl"], sys.modules["nccl.core"] = types.ModuleType("nccl"), core
    sys.modules["nccl"].core = core
    ranks.main((collectives, data_parallel), "nccl")
