"""Sparse tensors beside PyTorch's, plainly and in a training step under @jit."""

import warnings

import pytest

import eager
from eager import nn
from eager.nn import functional as F
from jitcap import jit

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning", "ignore:torch.sparse.Sparse")

PLACES = [[0, 1, 1, 0], [2, 0, 2, 2]]  # one occurs twice


def coo(m, **options):
    return m.sparse_coo_tensor(m.tensor(PLACES), m.tensor([3.0, 4.0, 5.0, 1.0]), (2, 3), **options)


def csr(m):
    lines, columns = m.tensor([0, 1, 3]), m.tensor([0, 0, 2])
    return m.sparse_csr_tensor(lines, columns, m.tensor([1.0, 2.0, 3.0]), (2, 3))


CALLS = """
coo(m)
coo(m).coalesce()
coo(m, dtype=m.float64)
coo(m).t()
coo(m).transpose(0, 1).to_dense()
coo(m).permute(1, 0).to_dense()
m.eye(4).reshape(2, 2, 2, 2).to_sparse(2).permute(1, 0, 3, 2)
coo(m).permute(0, 0)
coo(m).unsqueeze(0)
m.eye(2).to_sparse(1).unsqueeze(-1)
coo(m).norm()
m.arange(6.0).reshape(2, 3).sparse_mask(coo(m).coalesce())
coo(m)[0]
coo(m)[-1].to_dense()
coo(m) * 2
2 * coo(m) / 4
-coo(m)
coo(m) * m.arange(6.0).reshape(2, 3)
(coo(m) + coo(m).coalesce()).to_dense()
coo(m).coalesce() + csr(m).to_sparse()
m.ones(2, 3) + coo(m)
m.ones(2, 3) - coo(m)
coo(m) + m.ones(2, 3)
(coo(m) * coo(m)).to_dense()
(coo(m) * csr(m).to_sparse()).to_dense()
coo(m).index_select(0, m.tensor([1, 0, 1])).to_dense()
coo(m).abs()
coo(m).sqrt()
coo(m) ** 2
coo(m).double().to_dense()
coo(m).sum()
m.sparse.sum(coo(m), 1)
m.sparse.sum(coo(m), [0, 1])
m.sparse.softmax(coo(m), 1)
m.sparse.log_softmax(coo(m), 0)
coo(m).index_select(1, m.tensor([2, 0])).to_dense()
coo(m).to_sparse_csr().to_dense()
coo(m).to_sparse_csr().crow_indices()
coo(m).to_sparse_csc().ccol_indices()
coo(m).to_sparse_csc().row_indices()
coo(m).to_sparse_csc().values()
csr(m).to_dense()
csr(m).col_indices()
csr(m) @ m.ones(3, 2)
m.mm(coo(m), m.ones(3, 2))
m.matmul(coo(m), m.ones(3))
m.spmm(coo(m), m.ones(3, 2))
coo(m).mm(m.ones(3, 2))
m.ones(2, 2) @ coo(m)
m.addmm(m.ones(2, 2), coo(m), m.ones(3, 2))
m.sparse.addmm(m.ones(2, 2), coo(m), m.ones(3, 2), beta=2, alpha=3)
coo(m) @ coo(m).t()
m.sparse.mm(csr(m).to_sparse(), coo(m).t()).to_dense()
m.mm(coo(m), m.ones(2, 2))
m.eye(2).to_sparse()
m.arange(6.0).reshape(2, 3).to_sparse_csr().values()
m.arange(12.0).reshape(2, 3, 2).to_sparse(1)
m.sparse_coo_tensor([[0, 1]], [[1.0, 2.0], [3.0, 4.0]], (3, 2)).to_dense()
m.sparse_coo_tensor((2, 3))
m.sparse_coo_tensor(m.tensor(PLACES), m.ones(4))
m.sparse.FloatTensor(m.tensor(PLACES), m.ones(4), m.Size([2, 3]))
coo(m).indices()
coo(m).coalesce().values()
(coo(m)._nnz(), coo(m).is_coalesced(), tuple(coo(m).shape), coo(m).sparse_dim(), len(coo(m)))
(coo(m).is_sparse, csr(m).is_sparse, str(csr(m).layout), coo(m).numel(), coo(m).dense_dim())
"""


def outcome(m, text):
    try:
        return repr(eval(text, {"m": m, "coo": coo, "csr": csr})).replace("eager.", "torch.")
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("text", CALLS.strip().splitlines())
def test_as_in_pytorch(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert outcome(eager, text) == outcome(torch, text)


def test_text_of_compressed_ones():
    assert repr(csr(eager)) == (
        "tensor(crow_indices=tensor([0, 1, 3]),\n"
        "       col_indices=tensor([0, 0, 2]),\n"
        "       values=tensor([1., 2., 3.]),\n"
        "       size=(2, 3), nnz=3, layout=eager.sparse_csr)"
    )


def test_gradients():
    found = []
    for m in (torch, eager):
        w = m.tensor([3.0, 4.0, 5.0, 1.0], requires_grad=True)
        x = m.arange(6.0).reshape(3, 2).requires_grad_()
        a = m.sparse_coo_tensor(m.tensor(PLACES), w, (2, 3))
        y = m.sparse.mm(a, x).pow(2).sum() + m.sparse.sum(a * 2, 1).to_dense().pow(2).sum()
        y.backward()
        b = coo(m).coalesce().requires_grad_()
        (m.sparse.mm(b, m.ones(3, 2)) ** 2).sum().backward()
        found.append(
            [w.grad.tolist(), x.grad.tolist(), y.item(), repr(b.grad).replace("eager", "torch")]
        )
    assert found[0] == found[1]


def test_large_ones_stay_sparse():
    """What has 10^12 elements, of which two are kept."""
    n = 1_000_000
    a = eager.sparse_coo_tensor([[3, n - 1], [5, 7]], [2.0, 3.0], (n, n)).coalesce()
    b = eager.sparse_coo_tensor([[3, 4], [5, 7]], [4.0, 1.0], (n, n)).coalesce()
    assert [t.tolist() for t in ((a * b).indices(), (a * b).values())] == [[[3], [5]], [8.0]]
    assert (a * (a - a)).values().tolist() == [0.0, 0.0]
    assert (a * eager.sparse_coo_tensor((n, n)))._nnz() == 0
    assert a.index_select(0, eager.tensor([n - 1, 0, 3])).indices().tolist() == [[0, 2], [7, 5]]
    assert (a @ b.t())._nnz() == 2


def test_what_is_refused():
    with pytest.raises(
        RuntimeError, match="size is inconsistent with indices: for dim 0, size is 1"
    ):
        eager.sparse_coo_tensor([[0, 1], [0, 0]], [1.0, 2.0], (1, 1))
    with pytest.raises(RuntimeError, match=r"indices \(D, N\) and values"):
        eager.sparse_coo_tensor([[0, 1]], [1.0], (2,))
    with pytest.raises(RuntimeError, match="does not fit 2 rows of indices"):
        eager.sparse_coo_tensor([[0], [1]], [1.0], (2,))
    with pytest.raises(RuntimeError, match=r"`crow_indices\[..., -1\] == nnz` is not satisfied"):
        eager.sparse_csr_tensor([0, 1, 3], [0, 1], [1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"`ccol_indices\[..., 0\] == 0` is not satisfied"):
        eager.sparse_csc_tensor([1, 1, 2], [0, 1], [1.0, 2.0])
    with pytest.raises(RuntimeError, match="`crow_indices` falls"):
        eager.sparse_csr_tensor([0, 2, 1, 2], [0, 1], [1.0, 2.0])
    with pytest.raises(
        NotImplementedError, match=r"\.reshape of a sparse tensor is not there: to_d"
    ):
        coo(eager).reshape(6)
    with pytest.raises(AttributeError, match="no attribute 'shapes'"):
        coo(eager).shapes  # noqa: B018
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(coo(eager))


class Layer(nn.Module):
    def __init__(self, ins, outs):
        super().__init__()
        self.weight = nn.Parameter(eager.randn(ins, outs) * 0.3)

    def forward(self, x, graph):
        s = eager.mm(x, self.weight)
        attention = eager.sparse.softmax(graph, 1)
        more = (
            eager.sparse_coo_tensor(graph.indices(), graph.values() * 2, graph.shape) @ s
        ).tanh()
        return eager.spmm(graph, s) + eager.mm(attention, s) + (s.t() @ graph).t() + more


def test_a_graph_network_is_one_graph():
    eager.manual_seed(0)
    places = eager.randint(0, 10, (2, 30))
    graph = eager.sparse_coo_tensor(places, eager.rand(30), (10, 10)).coalesce()
    x, y = eager.randn(10, 5), eager.randint(0, 3, (10,))
    losses = []
    for compile in (lambda fn: fn, jit(fullgraph=True)):
        eager.manual_seed(1)
        first, second = Layer(5, 8), Layer(8, 3)
        optimizer = eager.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01)

        @compile
        def step(x, graph, y):
            optimizer.zero_grad()
            h = F.dropout(F.relu(first(x, graph)), 0.5)
            loss = F.cross_entropy(second(h, graph), y)
            loss.backward()
            optimizer.step()
            return loss

        losses.append([step(x, graph, y).item() for _ in range(4)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert step.stats.compiles == 1
