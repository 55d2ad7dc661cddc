"""Functions that are compiled while the program goes on: a backward."""

import threading

import eager
from jitcap import jit, pipeline


def test_a_backward_runs_op_by_op_until_it_is_compiled(monkeypatch):
    opened = threading.Event()
    compile_graph = pipeline.compile_graph

    def later(*args, **options):
        assert opened.wait(60)
        return compile_graph(*args, **options)

    monkeypatch.setattr(pipeline, "compile_graph", later)
    fn = jit(lambda w: (w * w).sum(), mode="background")
    w = eager.tensor([1.0, 2.0], requires_grad=True)
    fn(w)
    fn.wait()
    for _ in range(2):
        w.grad = None
        fn(w).backward()
        assert w.grad.tolist() == [2.0, 4.0]
        assert fn.stats.pending == 1
    opened.set()
    fn.wait()
    w.grad = None
    fn(w).backward()
    assert w.grad.tolist() == [2.0, 4.0]
    assert not fn.stats.tasks
