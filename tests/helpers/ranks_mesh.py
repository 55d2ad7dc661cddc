"""Cases of groups, meshes and SyncBatchNorm: `mpiexec -n 4 python ranks_mesh.py`, as `ranks`."""

import copy

import numpy as np
import pytest
import ranks

import eager
import eager.distributed as dist
from eager import nn
from eager.distributed.device_mesh import DeviceMesh, init_device_mesh
from eager.nn.parallel import DistributedDataParallel
from jitcap import explain, jit


def parts(r, n):
    """Rows of each rank's batch, uneven: (sizes, this rank's rows)."""
    sizes = [3, 1, 0, 4][:n]
    ends = np.cumsum([0, *sizes])
    return sizes, slice(int(ends[r]), int(ends[r + 1]))


def same(a, b, tolerance=1e-10):
    assert (
        a.shape == b.shape
        and np.abs(a.detach().numpy() - b.detach().numpy()).max(initial=0) < tolerance
    )


def sync_batch_norm(r, n):
    """Outputs, statistics and gradients of the whole batch in one process; eager and in one graph."""
    rng = np.random.default_rng(0)
    sizes, mine = parts(r, n)
    for settings, shape in (
        ({}, (5, 3, 2)),
        ({"momentum": None, "affine": False}, (5,)),
        ({"track_running_stats": False}, (5, 2)),
    ):
        plain = nn.Sequential(
            nn.BatchNorm1d(5, **settings), nn.Tanh(), nn.BatchNorm1d(5, **settings)
        )
        if len(shape) == 3:
            plain = nn.Sequential(nn.BatchNorm2d(5), nn.Tanh(), nn.BatchNorm2d(5))
        plain = plain.double()
        synced = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain))
        assert [type(m) for m in synced][::2] == [nn.SyncBatchNorm] * 2
        for backend in ("eager", "python"):
            model, whole = copy.deepcopy(synced), copy.deepcopy(plain)

            def step(x, y):
                model.zero_grad()
                loss = (model(x) * y).sum()
                loss.backward()
                return loss

            run = step if backend == "eager" else jit(step, backend="python")
            for _ in range(2):
                x, y = (eager.from_numpy(rng.normal(size=(sum(sizes), *shape))) for _ in range(2))
                x, own = x.requires_grad_(), x[mine].detach().requires_grad_()
                whole.zero_grad()
                loss = (whole(x) * y).sum()
                loss.backward()
                total = run(own, y[mine]).detach()
                dist.all_reduce(total)
                same(total, loss)
                same(own.grad, x.grad[mine])
                for a, b in zip(model.parameters(), whole.parameters(), strict=True):
                    summed = a.grad.clone()
                    dist.all_reduce(summed)
                    same(summed, b.grad)
                for a, b in zip(model.buffers(), whole.buffers(), strict=True):
                    same(a, b)
            if backend == "python":
                assert (run.stats.graphs, run.stats.splits) == (1, 0), run.stats
            if model[0].track_running_stats:
                model.eval(), whole.eval()
                same(model(own), whole(own))
    layer = nn.SyncBatchNorm(2)
    for run in (layer, jit(lambda x: layer(x), backend="python")):
        for rows in (2, 0):  # the second time one value in all
            x = eager.ones(rows if r else rows + 1, 2)
            if rows:
                run(x)
            else:
                with pytest.raises(ValueError, match="more than 1 value per channel"):
                    run(x)


def sync_batch_norm_outside(r, n):
    """Forward captured, `backward()` not; under data parallel the mean gradient of equal parts."""
    eager.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.GELU(), nn.Linear(5, 2)).double()
    ours = DistributedDataParallel(
        nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain)),
        device_mesh=init_device_mesh("cpu", (n,)),
    )
    forward = jit(lambda x: ours(x).square().mean(), backend="python")
    for _ in range(2):
        x = eager.from_numpy(np.random.default_rng(1).normal(size=(2 * n, 4)))
        for model, loss in (
            (ours, forward(x[2 * r : 2 * r + 2])),
            (plain, plain(x).square().mean()),
        ):
            model.zero_grad()
            loss.backward()
        for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
            same(a.grad, b.grad)
    assert (forward.stats.graphs, forward.stats.splits) == (1, 0), forward.stats.refusals


def meshes(r, n):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert (mesh.shape, mesh.ndim, mesh.size(), mesh.size(1)) == ((2, 2), 2, 4, 2)
    assert mesh.get_coordinate() == (r // 2, r % 2) and mesh.get_rank() == r
    assert mesh.get_local_rank("dp") == mesh["dp"].get_local_rank() == r // 2
    assert mesh["tp"].mesh.tolist() == [r // 2 * 2, r // 2 * 2 + 1] and mesh["dp"].shape == (2,)
    assert (
        mesh["dp", "tp"] is mesh
        and mesh["dp"] == mesh["dp"]
        and hash(mesh["dp"]) == hash(mesh["dp"])
    )
    assert mesh["dp"].get_group() is mesh.get_group(0) is mesh.get_all_groups()[0]
    assert repr(mesh) == "DeviceMesh((dp=2, tp=2), 'cpu')"
    flat = mesh._flatten()
    assert flat.mesh_dim_names == ("dp_tp",) and mesh["dp_tp"] == flat and flat.size() == 4
    assert flat.get_group() is dist.group.WORLD and flat.mesh.tolist() == [0, 1, 2, 3]
    cube = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("a", "b", "c"))
    assert cube["a", "b"].mesh.tolist() == [[r % 2], [r % 2 + 2]]
    assert cube["a", "b"]._flatten("ab").get_group() is cube["a", "b"]["ab"].get_group()
    assert cube["ab", "c"].mesh.tolist() == [[0, 1], [2, 3]] and cube[
        "ab", "c"
    ].get_coordinate() == (r // 2, r % 2)
    two = DeviceMesh("cpu", [3, 1])
    assert two.get_coordinate() == {3: (0,), 1: (1,)}.get(r)
    again = DeviceMesh.from_group(mesh.get_group("tp"), "cpu", mesh_dim_names=("tp",))
    assert again.get_group("tp") is mesh.get_group("tp")
    dist.barrier()
    for kind, text, wrong in (
        (RuntimeError, "is 8 ranks, of 4", lambda: init_device_mesh("cpu", (8,))),
        (RuntimeError, "without an index", lambda: DeviceMesh("cuda:0", [0, 1])),
        (ValueError, "ranks 0 to 3", lambda: DeviceMesh("cpu", [0, 7])),
        (KeyError, "'pp' is no dimension", lambda: mesh["pp"]),
        (KeyError, "not in the order", lambda: mesh["tp", "dp"]),
        (RuntimeError, "ranks in common", lambda: mesh["dp_tp", "tp"]),
        (RuntimeError, "give mesh_dim", mesh.get_group),
        (
            RuntimeError,
            "each name once",
            lambda: init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "a")),
        ),
        (
            ValueError,
            "are not the groups",
            lambda: DeviceMesh.from_group(mesh.get_group(0), "cpu", [[0, 1]]),
        ),
    ):
        with pytest.raises(kind, match=text):
            wrong()
    if r % 2 == 0:
        with pytest.raises(RuntimeError, match=f"rank {r} is not in"):
            two.get_group()


def groups_of_a_mesh(r, n):
    """Every collective over them, eager and as nodes; the derivatives, too."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    F = dist.functional
    pair = dist.new_group([0, 3])

    def step(x):
        y, z, swapped = x.clone(), x.clone(), eager.zeros(2)
        dist.all_reduce(y, group=mesh.get_group("dp"))
        dist.broadcast(z, group=mesh["tp"].get_group(), group_src=1)
        each = eager.zeros(4)
        dist.all_gather_into_tensor(each, x, group=mesh.get_group("tp"))
        part = eager.zeros(1)
        dist.reduce_scatter_tensor(part, x, group=mesh.get_group(0))
        dist.all_to_all_single(swapped, x, group=mesh["dp"].get_group())
        if r in (0, 3):
            dist.all_reduce(part, group=pair)
        dist.barrier(group=mesh.get_group(1))
        w = x.clone().requires_grad_()
        (F.all_reduce(w, group=mesh["tp"]) * (r + 1)).sum().backward()
        (F.all_gather_tensor(w, 0, (mesh, 0)) * (r + 1)).sum().backward()
        return y, z, each, part, swapped, w.grad

    x = eager.tensor([r + 1.0, 10.0])
    run = jit(step, backend="python")
    dp, tp = [r % 2, r % 2 + 2], [r // 2 * 2, r // 2 * 2 + 1]
    for found in (step(x), run(x), run(x)):
        y, z, each, part, swapped, grad = (t.tolist() for t in found)
        assert y == [sum(i + 1 for i in dp), 20] and z == [tp[1] + 1, 10]
        assert each == [tp[0] + 1, 10, tp[1] + 1, 10]
        parts = [sum(k + 1.0 for k in (i % 2, i % 2 + 2)) if i < 2 else 20 for i in range(4)]
        assert part == [parts[r] if r in (1, 2) else parts[0] + parts[3]]
        assert swapped == ([i + 1 for i in dp] if r < 2 else [10, 10])
        assert grad == [sum(i + 1 for i in tp) + sum(i + 1 for i in dp)] * 2
    assert (run.stats.graphs, run.stats.splits) == (1, 0), run.stats
    number = mesh.get_group("dp").number
    assert f"group={number}" in str(explain(step)(x))


def subgroups(r, n):
    mine, groups = dist.new_subgroups(2)
    assert dist.get_process_group_ranks(mine) == [r // 2 * 2, r // 2 * 2 + 1] and len(groups) == 2
    mine, _ = dist.new_subgroups_by_enumeration([[0, 3], [2]])
    assert (mine is None) == (r == 1) and (r == 1 or mine.size() == (1 if r == 2 else 2))
    half = dist.split_group(split_ranks=[[1, 2], [0]])
    assert (half is None) == (r == 3) and (r == 3 or half.rank() == (1 if r == 2 else 0))
    with pytest.raises(ValueError, match="do not make groups of 3"):
        dist.new_subgroups(3)
    with pytest.raises(ValueError, match="in two of the groups"):
        dist.new_subgroups_by_enumeration([[0, 1], [1, 2]])
    found = [None, None]
    if r == 1:
        dist.send_object_list([{"a": 1}, "b" * 9999], 2)
    elif r == 2:
        assert dist.recv_object_list(found) == 1 and found == [{"a": 1}, "b" * 9999]
    x = eager.tensor([3 + 5j], dtype=eager.complex64)
    dist.all_reduce(x, dist.ReduceOp.AVG, dist.group.WORLD)
    assert x.item() == 3 + 5j and dist.get_pg_count() > 5


def older_functional_forms(r, n):
    """Values, and the gradients of the sum of all ranks' losses, as PyTorch's are."""
    F = dist.nn.functional
    total = n * (n + 1) / 2

    def ends(y, x, value, grad):
        assert y.tolist() == value
        x.grad = None
        (y * (r + 1)).sum().backward()
        assert x.grad.tolist() == grad, x.grad

    x = eager.tensor([r + 1.0, 2.0], requires_grad=True)
    ends(F.all_reduce(x), x, [total, 2.0 * n], [total] * 2)
    ends(eager.stack(F.all_gather(x)), x, [[i + 1.0, 2] for i in range(n)], [total] * 2)
    ends(F.broadcast(x, 1), x, [2, 2], [total if r == 1 else 0] * 2)
    ends(F.reduce(x, 1), x, [total, 2.0 * n] if r == 1 else [r + 1, 2], [2, 2])
    each = [[i + 1.0, 2] if r == 1 else [0, 0] for i in range(n)]
    ends(eager.stack(F.gather(x, 1)), x, each, [2, 2])
    ends(
        F.scatter([x * (i + 1) for i in range(n)], 1),
        x,
        [2 * (r + 1), 2 * (r + 1)],
        [sum((i + 1) ** 2 for i in range(n)) if r == 1 else 0] * 2,
    )
    like = eager.zeros(2)
    ends(
        F.reduce_scatter(like, [x * (i + 1) for i in range(n)]),
        x,
        [total * (r + 1), 2.0 * n * (r + 1)],
        [sum((i + 1) ** 2 for i in range(n))] * 2,
    )
    ends(
        eager.stack(F.all_to_all([like] * n, [x * (i + 1) for i in range(n)])),
        x,
        [[(i + 1.0) * (r + 1), 2 * (r + 1)] for i in range(n)],
        [sum((i + 1) ** 2 for i in range(n))] * 2,
    )
    y = eager.arange(4.0).requires_grad_()
    ends(F.all_to_all_single(eager.zeros(4), y), y, [r] * n, [i + 1 for i in range(n)])


def data_parallel_over_a_mesh(r, n):
    """Copies of a dimension average among themselves."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = DistributedDataParallel(nn.Linear(1, 1, bias=False), device_mesh=mesh["dp"])
    model(eager.full((1, 1), r + 1.0)).sum().backward()
    assert model.module.weight.grad.item() == (r % 2 + 1 + r % 2 + 3) / 2
    with pytest.raises(RuntimeError, match="not both"):
        DistributedDataParallel(
            nn.Linear(1, 1), process_group=mesh.get_group(0), device_mesh=mesh["dp"]
        )
    with pytest.raises(RuntimeError, match="give mesh_dim"):
        DistributedDataParallel(nn.Linear(1, 1), device_mesh=mesh)


CASES = (sync_batch_norm, sync_batch_norm_outside, meshes, groups_of_a_mesh, data_parallel_over_a_mesh, subgroups,
         older_functional_forms)  # fmt: skip

if __name__ == "__main__":
    ranks.main(CASES)
