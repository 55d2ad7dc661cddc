"""Cases of draws that do not depend on the number of ranks, of `ranks`."""

import numpy as np
import pytest

import eager
import eager.distributed as dist
from eager import nn
from eager.nn.parallel import DistributedDataParallel
from jitcap import jit


class Drops(nn.Module):
    """Draws by the rows of a batch, of several kinds; float64."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6).double(), nn.Linear(6, 1).double()
        self.layers = nn.Sequential(nn.Dropout(0.3), nn.AlphaDropout(0.2), nn.Dropout1d(0.4))

    def forward(self, x):
        h = self.layers(self.a(x))
        h = h + nn.functional.scaled_dot_product_attention(h, h, h, dropout_p=0.2)
        h = h + eager.randn_like(h) * eager.rand((), dtype=h.dtype)
        return self.b(h).mean((1, 2)) + eager.rand(len(h), dtype=h.dtype)


def draws_of_the_whole_batch(r, n):
    """Training on parts of a batch, with dropout, is training on the whole; also in one graph, and
    with another number of rows."""

    def trained(wrap, rows, compiled, around):
        eager.manual_seed(4)
        model = wrap(Drops())
        opt = eager.optim.SGD(model.parameters(), 0.1)

        @around
        def loss_of(x):
            return model(x).square().mean()

        def step(x):
            opt.zero_grad()
            loss = loss_of(x)
            loss.backward()
            opt.step()
            return loss

        run = jit(step, backend="python") if compiled else step
        losses = []
        for k, size in enumerate((4, 4, 3)):
            x = np.random.default_rng(k).normal(size=(size * n, 3, 6))
            losses.append(run(eager.from_numpy(x)[rows]).item())
        if compiled:
            assert run.stats.splits == 0, run.stats.refusals
        return losses

    def everywhere(f):
        return f

    alone = trained(everywhere, slice(None), False, everywhere)
    for compiled in (False, True):
        mine = trained(
            DistributedDataParallel, slice(r, None, n), compiled, dist.whole_batch_draws()
        )
        every = [None] * n
        dist.all_gather_object(every, mine)
        assert np.abs(np.mean(every, 0) - alone).max() < 1e-10, compiled
    drawing = jit(lambda x: x + eager.rand(2), backend="eager")
    for around in (everywhere, dist.whole_batch_draws(), everywhere):
        eager.manual_seed(1)
        plain = around(eager.rand)(2)
        eager.manual_seed(1)
        assert (around(drawing)(eager.zeros(2)) == plain).all()  # the block is guarded
    with dist.whole_batch_draws():
        with pytest.raises(RuntimeError, match="cannot be rows"):
            eager.poisson(eager.ones(2))
    eager.manual_seed(1)
    number = eager.randn((), dtype=eager.complex64)
    eager.manual_seed(1)
    with dist.whole_batch_draws():
        assert eager.randn((), dtype=eager.complex64) == number  # no rows, though it is two numbers


CASES = (draws_of_the_whole_batch,)
