"""A tensor's own state: data, strides, history, attributes."""

import eager
from eager import nn
from jitcap import graph_break
from tests.never_wrong.harness import Call, Program, case
from tests.never_wrong.scene import nothing, rows, scene


@case("tensors")
def data_is_replaced():
    w = eager.ones(3, requires_grad=True)

    def step(x):
        y = (w * x).sum()
        w.grad = None
        y.backward()
        return y.detach(), w.grad

    def data():
        w.data = eager.full((3,), 5.0)

    def shape():
        w.data = eager.full((1,), 2.0)

    def dtype():
        w.data = eager.full((3,), 2.0, dtype=eager.float64)

    return scene(step, data, shape, dtype)


@case("tensors")
def data_is_replaced_inside():
    w = eager.ones(3, requires_grad=True)

    def step(x):
        w.data = w.data + x
        return (w * 1).detach()

    return scene(step, nothing, observe=lambda: w)


@case("tensors")
def data_becomes_a_constant_the_first_time():
    w = eager.ones(3, requires_grad=True)
    ready = eager.tensor(False)

    def step(x):
        if not ready:
            w.data = -x.log()
            ready.data = eager.tensor(True)
        return (w * x).sum().detach()

    def again():
        ready.data = eager.tensor(False)

    return scene(step, nothing, again, observe=lambda: (w, ready))


@case("tensors")
def the_strides_of_an_argument():
    def step(x):
        return x + 1, x.is_contiguous(), x.reshape(-1), x.stride(), x.t()

    a = eager.arange(4.0).reshape(2, 2)
    return rows(step, (a,), (a.t(),), (eager.ones(1, 2).expand(2, 2),), (a[:, :1],))


@case("tensors")
def a_subclass_of_tensor():
    class Named(eager.Tensor):
        scale = 2

        def double(self):
            return self * self.scale

    plain = eager.ones(2)
    named = plain.as_subclass(Named) if hasattr(plain, "as_subclass") else Named([1.0, 1.0])

    def step(x):
        return x.double() if type(x) is Named else x * 5, type(x).__name__, type(x * 2).__name__

    program = rows(step, (plain,), (named,), (plain,))
    program.calls.append(Call((named,), before=lambda: setattr(Named, "scale", 7)))
    return program


@case("tensors")
def a_parameter_for_a_tensor():
    def step(x):
        return type(x).__name__, x.requires_grad, isinstance(x, nn.Parameter), x * 2

    return rows(
        step,
        (eager.ones(2),),
        (nn.Parameter(eager.ones(2)),),
        (nn.Parameter(eager.ones(2), requires_grad=False),),
    )


@case("tensors")
def leaves_and_histories():
    def step(x):
        return x.is_leaf, x.grad_fn is None, x.requires_grad, (x * 2).grad_fn is None

    a = eager.ones(2, requires_grad=True)
    return rows(step, (a,), (a * 2,), (a.detach(),), ((a * 2).detach().requires_grad_(),))


@case("tensors")
def the_version_of_a_tensor():
    w = eager.zeros(2)

    def step(x):
        before = w._version
        w.add_(1)
        return w._version - before, x

    return scene(step, lambda: w.add_(1), observe=lambda: w._version)


@case("tensors")
def retained_gradients():
    kept = []

    def step(x):
        w = x.detach().clone().requires_grad_()
        y = w * 2
        y.retain_grad()
        y.sum().backward()
        kept.append(y)
        return y.grad, w.grad

    return scene(step, nothing, observe=lambda: [k.grad for k in kept])


@case("tensors")
def the_history_of_the_last_call_goes_on():
    state = {"h": eager.zeros(2)}
    w = eager.ones(2, requires_grad=True)

    def step(x):
        state["h"] = state["h"] * w + x
        return state["h"].sum()

    def backward():
        state["h"].sum().backward()
        state["h"] = state["h"].detach()

    return scene(step, nothing, backward, nothing, args=(eager.ones(2),), observe=lambda: w.grad)


@case("tensors")
def the_output_is_changed_outside():
    kept = []

    def step(x):
        y = x * 2
        kept.append(y)
        return y

    return scene(step, lambda: kept[0].zero_(), nothing, observe=lambda: list(kept))


@case("tensors")
def a_constant_made_inside_is_changed_outside():
    kept = []

    def step(x):
        t = eager.tensor([1.0, 2.0])
        kept.append(t)
        return x[:2] * t

    return scene(step, lambda: kept[0].zero_(), nothing, observe=lambda: list(kept))


@case("tensors")
def a_default_tensor_is_changed():
    def step(x, w=eager.tensor([1.0, 2.0, 3.0])):  # noqa: B008
        w += 1
        return x * w

    return scene(
        step, nothing, lambda: step.__defaults__[0].zero_(), observe=lambda: step.__defaults__
    )


@case("tensors")
def an_attribute_of_a_tensor_is_written_inside():
    w = eager.ones(3)

    def step(x):
        w.count = getattr(w, "count", 0) + 1
        y = x * w.count
        y.tag = "made"
        return y, y.tag, w

    return scene(step, nothing, lambda: setattr(w, "count", 10))


@case("tensors")
def a_tensor_is_a_key():
    w, v = eager.ones(1), eager.zeros(1)
    table = {w: 2}

    def step(x):
        table[v] = table.get(v, 0) + 1
        return x * table[w], v in table, len({w, v, w}), table[v]

    return scene(step, nothing, lambda: table.update({w: 5}), observe=lambda: list(table.values()))


@case("tensors")
def a_value_keeps_its_gradient_behind_a_split():
    w = eager.tensor([1.0, 2.0], requires_grad=True)

    def step(x):
        h = w * x
        h.retain_grad()
        graph_break()
        (h * h).sum().backward()
        return h.grad

    x = eager.tensor([1.0, 2.0])
    return Program(step, [(x,)] * 3, lambda: w)


@case("tensors")
def gradients_of_several_behind_a_split():
    w = eager.tensor([1.0, 2.0], requires_grad=True)

    def step(x):
        h, k = w * x, w + x
        for each in (h, k):
            each.retain_grad()
        graph_break()
        eager.autograd.backward(tensors=[(h * k).sum(), k.sum()])
        return h.grad, k.grad

    x = eager.tensor([1.0, 2.0])
    return Program(step, [(x,)] * 3, lambda: w)
