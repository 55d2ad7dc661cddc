"""Inference tensors, beside torch: how one came to be, times what is done, in and out of a mode."""

import contextlib
import copy
import io
import pickle
import threading

import pytest

import eager

torch = pytest.importorskip("torch")


def made(t):
    """Tensors by how they came to be."""
    normal, needs = t.arange(1.0, 5), t.ones(4, requires_grad=True)
    with t.inference_mode():
        sums, ones, lists = normal * 2, t.ones(4), t.tensor([1.0, 2, 3, 4])
        with_grad = t.ones(4).requires_grad_()
        view, copied, split = normal.view(2, 2).view(4), normal[None].T.reshape(4), ones.split(4)[0]
        reshaped = t.zeros(2, 3).t().reshape(6)[:4]
        same, noise, stacked = normal.contiguous(), t.rand(4), t.stack([normal])[0]
        read, recorded = t.from_numpy(normal.numpy()), needs * 2
        with t.enable_grad():
            again = needs * 3
        with t.inference_mode(False):
            outside, of_inference, tracked = normal * 2, ones * 2, needs * 2
    other = t.zeros(4)
    other.data = ones
    return {
        "normal": normal, "leaf": needs, "sums": sums, "ones": ones, "lists": lists,
        "with_grad": with_grad, "view": view, "copied": copied, "split": split, "same": same,
        "reshaped": reshaped, "noise": noise, "stacked": stacked, "read": read,
        "recorded": recorded, "again": again, "outside": outside, "of_inference": of_inference,
        "tracked": tracked, "view_outside": ones[:], "detached": ones.detach(),
        "detached_normal": normal.detach(), "cloned": ones.clone(), "added": ones + 1,
        "data": ones.data, "other": other, "converted": ones.double().float(),
    }  # fmt: skip


def weight(t):
    return t.ones(4, requires_grad=True)


def accumulated(t, x):
    w = weight(t)
    w.grad = x
    (w * 2).sum().backward()
    return w.grad


def by_function(t, x):
    class Times(t.autograd.Function):
        @staticmethod
        def forward(ctx, w, x):
            ctx.save_for_backward(x)
            return w * 1

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0], None

    return Times.apply(weight(t), x)


def assigned(t, x):
    other = t.zeros(4)
    other.data = x
    return other


def loaded(t, x):
    file = io.BytesIO()
    t.save(x.detach(), file)
    file.seek(0)
    return t.load(file)


def within(t, f):
    with t.inference_mode():
        return f()


ACTIONS = {
    "add_": lambda t, x: x.add_(1) if not x.requires_grad else x,
    "mul_": lambda t, x: x.mul_(t.ones(4)) if not x.requires_grad else x,
    "fill": lambda t, x: x.fill_(3) if not x.requires_grad else x,
    "out": lambda t, x: t.add(t.ones(4), 1, out=x) if not x.requires_grad else x,
    "inside": lambda t, x: within(t, lambda: x.add_(1)),
    "unsqueeze_": lambda t, x: x.unsqueeze_(0) if not x.requires_grad else x,
    "requires_grad_": lambda t, x: x.requires_grad_() if x.is_leaf else x,
    "no_grad_needed": lambda t, x: x.requires_grad_(False) if x.is_leaf else x,
    "parameter": lambda t, x: t.nn.Parameter(x.detach()),
    "buffer": lambda t, x: t.nn.Parameter(x.detach(), requires_grad=False),
    "version": lambda t, x: x._version > 5,
    "is_inference": lambda t, x: (x.is_inference(), t.is_inference(x)),
    "times": lambda t, x: weight(t) * x,
    "plus": lambda t, x: weight(t) + x,
    "power": lambda t, x: weight(t) ** x,
    "index": lambda t, x: t.ones(20, requires_grad=True)[x.detach().long()],
    "where": lambda t, x: t.where(x.detach() > 0, weight(t), 0.0),
    "linear": lambda t, x: t.nn.Linear(4, 2)(x),
    "stack": lambda t, x: t.stack([weight(t), x]),
    "accumulated": lambda t, x: accumulated(t, x.detach().clone() if x.requires_grad else x),
    "function": by_function,
    "given": lambda t, x: t.autograd.grad((w := weight(t)) * 2, w, x)[0],
    "written": lambda t, x: t.zeros(4).copy_(x.detach()),
    "written_to_recorded": lambda t, x: weight(t).clone().mul_(x),
    "view": lambda t, x: x.detach().view(2, 2),
    "clone": lambda t, x: x.detach().clone(),
    "data": lambda t, x: x.data,
    "write_data": lambda t, x: x.data.add_(1),
    "assigned": lambda t, x: assigned(t, x.detach()),
    "deepcopy": lambda t, x: copy.deepcopy(x.detach()),
    "pickled": lambda t, x: pickle.loads(pickle.dumps(x.detach())),
    "saved": loaded,
}
MODES = {
    "outside": lambda t: contextlib.nullcontext(),
    "no_grad": lambda t: t.no_grad(),
    "inside": lambda t: t.inference_mode(),
}


def look(x):
    if isinstance(x, tuple):
        return tuple(map(look, x))
    return (x.is_inference(), x.requires_grad, x.is_leaf) if hasattr(x, "detach") else x


def outcomes(t):
    found = {}
    for name in made(t):
        for action, act in ACTIONS.items():
            for mode, enter in MODES.items():
                x = made(t)[name]
                try:
                    with enter(t):
                        result = look(act(t, x))
                except RuntimeError:
                    result = "RuntimeError"
                found[name, action, mode] = result
    return found


def test_inference_tensors_are_those_of_torch():
    ours, theirs = outcomes(eager), outcomes(torch)
    assert {k: (ours[k], theirs[k]) for k in ours if ours[k] != theirs[k]} == {}


def test_what_is_said_names_the_cure():
    with eager.inference_mode():
        x = eager.ones(2)
    with pytest.raises(RuntimeError, match=r"Writing in place .* clone"):
        x[0] = 1
    with pytest.raises(RuntimeError, match=r"saved for the derivative of mul.*clone"):
        eager.ones(2, requires_grad=True) * x
    with pytest.raises(RuntimeError, match=r"requires_grad=True .* clone"):
        x.requires_grad = True


def test_a_write_that_is_refused_writes_nothing():
    with eager.inference_mode():
        x = eager.arange(4)
    for write in (x.zero_, lambda: x.__setitem__(x > 1, 9), lambda: x.resize_(2), x.t_):
        with pytest.raises(RuntimeError, match="inference tensor"):
            write()
    assert x.tolist() == [0, 1, 2, 3]


def test_where_it_is_not_as_in_torch():
    needs = eager.ones(2, requires_grad=True)
    with eager.inference_mode():
        view = needs[:]
        with eager.enable_grad():
            assert not eager.is_grad_enabled()
        assert eager.func.grad(lambda a: (a * a).sum())(needs).is_inference()
    assert not view.requires_grad


def test_a_mode_is_that_of_a_thread():
    found = []
    with eager.inference_mode():
        thread = threading.Thread(target=lambda: found.append(eager.ones(1).is_inference()))
        thread.start()
        thread.join()
        found.append(eager.ones(1).is_inference())
    assert [*found, eager.ones(1).is_inference()] == [False, True, False]


def test_transforms_in_inference_mode():
    x = eager.ones(2)
    with eager.inference_mode():
        assert eager.func.grad(lambda a: (a * a).sum())(x).tolist() == [2, 2]
        assert eager.func.jvp(lambda a: a * a, (x,), (x * 3,))[1].tolist() == [6, 6]
        assert eager.func.vmap(lambda a: a.view(1))(x).is_inference() is False
        inside = x * 2
    assert eager.func.grad(lambda a: (a * a).sum())(inside).tolist() == [4, 4]
