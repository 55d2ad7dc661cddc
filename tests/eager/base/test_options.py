"""Every option of the public API works, or says that it does not: it warns once where ignoring it
changes no result, and raises otherwise."""

import ast
import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest
from sources import nodes

import eager
from eager import nn
from eager.base import compat_warnings
from eager.nn import functional as F
from eager.utils import checkpoint as checkpoints
from eager.utils.data import DataLoader, TensorDataset
from jitcap import assume_static, config, jit, mark_dynamic
from jitcap.base.diagnostics import forget_announcements

ROOT = Path(__file__).resolve().parents[3]
INTERNAL = (
    "/eager/core/tape.py",
    "/autodiff/compiled_function.py",
    "/capture/",
    "/base/origin.py",
    "/store/",
    "/programs/stand_in.py",
    "/passes/",
    "/verify/",
    "/ops/kinds",
    "/ops/index.py",
    "/ops/scan",
)

# Parameters of public functions that are not read, and why that is right: {name: why}.
NOT_READ = {
    "find_unused_parameters static_graph check_reduction": "it is seen which are unused",
    "gradient_as_bucket_view parameters_as_bucket_view": "where gradients lie, not what they are",
    "pg_options device_id device_ids use_local_synchronization": "of engines for GPUs",
    "var bind where": "one signature for what names the terms of an entry",
    "arrays attrs avals outs handle names dtype": "one signature for all ops and guards",
    "flops": "of a launch: only a device that models time needs it",
    "kwargs value": "one signature for all",
    "foreach vectorize strategy outer_jacobian_strategy compute_mode chunk_size": "how, not what",
    "cache_enabled enable_nested_tensor mask_check set_priority use_strict_trace": "how, not what",
    "BLOCK_SIZE _compile kernel_options": "of attention: how, not what",
    "stable sorted": "always",
    "non_blocking": "of copies from and to a GPU, as in PyTorch on a CPU",
    "check_available device map_location output_device check_device process_group": "there is one",
    "check_layout": "there is one",
    "weights_only": "nothing in the file is run in any case",
    "_stacklevel implicit output_size only_inputs": "a hint that PyTorch's callers pass",
    "out": "taken by registry.with_out",
    "wanted tensor": "for those that override it",
    "args": "nn.Identity takes anything",
    "in_order": "batches come in order",
    "max_queue flush_secs": "when to write, not what",
    "progress": "what is seen of a download",
    "relevant_args arg": "of functions that ask for types of others, of which there are none",
    "use_reentrant determinism_check debug early_stop preserve_rng_state segments": "how to recompute",
    "group parameter state num_averaged _ inputs epoch": "one signature for all subclasses or hooks",
    "the_type": "annotations change nothing",
    "check_undefined_grad": "an operand that needs no gradient has none",
    "return_indices": "the function is the one that gives them",
    "y __ node t": "one signature for all subclasses",
    "collate_fn_map": "one signature for all that join samples",
    "mods": "modules are found by their calls",
    "device_types tags lib allow_override recursive": "of PyTorch's dispatcher and compiler",
}  # fmt: skip


def is_stub(body):
    *_, last = body
    return len(body) <= 2 and (
        isinstance(last, ast.Raise | ast.Pass)
        or (isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant))
    )


def not_read(path):
    """(line, function, parameter) of what a function takes and never looks at."""
    for node in nodes(path):
        hidden = isinstance(node, ast.FunctionDef) and node.name.startswith("_")
        if not isinstance(node, ast.FunctionDef) or (
            hidden and node.name not in ("__init__", "__call__")
        ):
            continue
        if is_stub(node.body) or any(isinstance(n, ast.Raise) for n in node.body[:1]):
            continue
        a = node.args
        names = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if x]
        used = {n.id for part in node.body for n in ast.walk(part) if isinstance(n, ast.Name)}
        if "locals" in used:  # settings: test_every_setting_is_read
            continue
        yield from ((node.lineno, node.name, n) for n in names if n not in used | {"self", "cls"})


@pytest.mark.once
def test_every_parameter_is_read_or_has_a_reason():
    reasons = {name for names in NOT_READ for name in names.split()}
    silent = []
    for package in ("eager", "jitcap"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if any(part in str(path) for part in INTERNAL):
                continue
            for line, function, name in not_read(path):
                if name not in reasons:
                    silent.append(f"{path.relative_to(ROOT)}:{line} {function}({name})")
    assert not silent, "parameters that do nothing:\n" + "\n".join(silent)


HOW = {"foreach", "fused", "capturable"}  # how a step is computed, not what


@pytest.mark.parametrize(
    "name", [n for n in eager.optim.__all__ if n[0].isupper() and n != "Optimizer"]
)
def test_every_setting_is_read(name):
    kind = getattr(eager.optim, name)
    text = "".join(inspect.getsource(c) for c in kind.__mro__ if c is not object)
    settings = set(inspect.signature(kind).parameters) - {"params"}
    assert not {s for s in settings if f'["{s}"]' not in text and f'.get("{s}")' not in text} - HOW


@pytest.fixture(autouse=True)
def afresh(monkeypatch):
    monkeypatch.setattr(compat_warnings, "_said", set())
    forget_announcements()


def said_once(call, text):
    with pytest.warns(compat_warnings.IgnoredOptionWarning, match=text):
        first = call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()
    return first


def test_sparse_gradients_are_dense():
    table = eager.ones(4, 2, requires_grad=True)
    places = eager.tensor([1, 1, 3])
    said_once(lambda: F.embedding(places, table, sparse=True).sum().backward(), "gradient is dense")
    assert table.grad[:, 0].tolist() == [0, 4, 0, 2]
    offsets = eager.tensor([0, 2])
    said_once(lambda: F.embedding_bag(places, table, offsets, sparse=True), "gradient is dense")
    compat_warnings._said.clear()
    said_once(lambda: nn.Embedding(4, 2, sparse=True)(places), "gradient is dense")
    compat_warnings._said.clear()
    said_once(lambda: nn.EmbeddingBag(4, 2, sparse=True)(places, offsets), "gradient is dense")
    said_once(lambda: eager.gather(table, 0, places[:, None], sparse_grad=True), "is dense")
    compat_warnings._said.clear()
    step = jit(lambda x: F.embedding(x, table, sparse=True), backend="eager")
    with pytest.warns(compat_warnings.IgnoredOptionWarning, match="gradient is dense"):
        assert step(places).shape == (3, 2)
    assert step.stats.splits == 0


def test_memory_and_layout():
    x = eager.ones(2, 3, 4, 5)
    said_once(lambda: x.contiguous(memory_format=eager.channels_last), "memory_format")
    said_once(lambda: x.to(memory_format=eager.channels_last), "memory_format")
    said_once(lambda: eager.zeros(2, pin_memory=True), "pin_memory=True")
    said_once(lambda: eager.rand(2, pin_memory=True), "pin_memory=True")
    said_once(lambda: eager.tensor([1], pin_memory=True), "pin_memory=True")
    assert eager.zeros(2, layout=eager.strided).tolist() == [0, 0]
    with pytest.raises(NotImplementedError, match="strided"):
        eager.zeros(2, layout="eager.sparse_coo")
    with pytest.raises(TypeError, match="dtpe"):
        x.to(dtpe=eager.float64)
    assert x.to(eager.float32, False, True) is not x
    assert x.to(eager.float32, non_blocking=True) is x


def test_options_that_change_results_work_or_raise():
    tall = eager.zeros(7, 3)
    tall.fill_diagonal_(1, wrap=True)
    expected = np.zeros((7, 3))
    np.fill_diagonal(expected, 1, wrap=True)
    assert tall.tolist() == expected.tolist()
    x = eager.tensor([[2.0, 5.0], [1.0, 3.0]])
    for uplo in "LU":
        assert np.allclose(eager.linalg.eigvalsh(x, uplo), np.linalg.eigvalsh(x.numpy(), uplo))
        assert np.allclose(eager.linalg.eigh(x, uplo)[0], np.linalg.eigh(x.numpy(), uplo)[0])
    out = eager.zeros(3)
    for draw in (eager.rand, eager.randn):
        eager.manual_seed(0)
        assert draw(3, out=out) is out
        eager.manual_seed(0)
        assert out.tolist() == draw(3).tolist()
    with pytest.raises(NotImplementedError, match="strict"):
        eager.func.jvp(eager.sin, (out,), (out,), strict=True)
    with pytest.raises(NotImplementedError, match="allow_subclasses"):
        eager.testing.assert_close(out, out, allow_subclasses=False)


def test_loaders():
    data = TensorDataset(eager.ones(4))
    said_once(
        lambda: DataLoader(data, pin_memory=True), "DataLoader: pin_memory=True has no effect"
    )


def test_checkpoint_says_where_memory_is_saved():
    x = eager.ones(3, requires_grad=True)
    body = lambda a: (a * a).sin()
    y = said_once(lambda: checkpoints.checkpoint(body, x, use_reentrant=False), "saves no memory")
    y.sum().backward()
    assert np.allclose(x.grad, 2 * np.cos(1))
    with pytest.raises(NotImplementedError, match="context_fn"):
        checkpoints.checkpoint(body, x, context_fn=lambda: None)
    compat_warnings._said.clear()
    step = jit(lambda x: checkpoints.checkpoint(body, x, use_reentrant=False), backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # there the compiler decides
        assert np.allclose(step(eager.ones(3)), np.sin(1))
    assert (step.stats.graphs, step.stats.splits) == (1, 0)


def test_sizes_that_vary():
    x = eager.ones(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mark_dynamic(x, 1) is x
        assert assume_static(x, 0) is x
        step = jit(lambda x: x * 2, dynamic=True, backend="eager")
        static = jit(lambda x: x * 2, dynamic=False, backend="eager")
    with config(strict=True):
        for n in (2, 3, 4):
            assert step(eager.ones(n)).tolist() == [2] * n
            assert static(eager.ones(n)).tolist() == [2] * n
    assert step.stats.compiles == 1
    assert static.stats.compiles == 3
