"""Programs with branches on tensors: (function, what makes its arguments) by name. The first argument
is a tensor, whose sign decides."""

import eager

ONE, SPLITS = {}, {}


def tensors(*shapes):
    return lambda: tuple(eager.rand(s) + 0.25 for s in shapes or ((3,),))


def one(fn, make=None):
    ONE[fn.__name__] = fn, make or tensors()
    return fn


def splits(fn, make=None):
    SPLITS[fn.__name__] = fn, make or tensors()
    return fn


def with_gradient(*shapes):
    def make():
        first, *rest = tensors(*shapes)()
        return (first, *(t.requires_grad_() for t in rest))

    return make


class Box:
    pass


def box(**fields):
    def make():
        b = Box()
        vars(b).update({k: v() if callable(v) else v for k, v in fields.items()})
        return eager.rand(3) + 0.25, b

    return make


@one
def both_ways_assign(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x.exp()
    return y + 1


@one
def a_constant_of_another_kind(x):
    a = 1.0 if x.sum() > 0 else 2.0 if x[0] < -0.3 else 3
    return x * a


@one
def another_shape(x):
    y = x[:2] if x.sum() > 0 else x
    return (y * 2).sum() + eager.rand(1)


@one
def nothing(x):
    mask = x > 0.5 if x.sum() > 0 else None
    y = x * 2
    return y if mask is None else y.masked_fill(mask, 0.0)


@one
def a_truth_of_two_kinds(x):
    good = x[0] > 0 and x[1] > 0 and not x[2] > 1
    return x * 2 if good else x * 3


def backward_in_both(x, w):
    """Each takes the gradient of one graph, which is used up afterwards."""
    y = (x * w).exp()
    if x.sum() > 0:
        total = y.sum()
        total.backward()
    else:
        total = (y * y).sum()
        total.backward()
    return total.detach()


one(backward_in_both, with_gradient(3, 3))


def a_word_that_decides(x, b):
    mode = "up" if x.sum() > 0 else "down"
    b.n = b.n + 1
    if mode == "up":
        b.x = b.x + x
    else:
        b.x = b.x * 0.5
    return b.x * 2


one(a_word_that_decides, box(n=lambda: eager.tensor(0), x=lambda: eager.ones(3)))


@one
def one_way_assigns(x):
    y = x * 2
    if x.sum() > 0:
        y = y * 3
    return y + 1


@one
def an_expression(x):
    return (x * 2 if x.mean() > 0 else x - 1) + 1


@one
def both_return(x):
    if (x > 0).all():
        return x * 2
    return x - 3


@one
def an_early_return(x):
    if x.sum() < 0:
        return x * 0 - 1
    y = x.exp()
    z = y + x
    return z * y


@one
def three_ways(x):
    if x.sum() > 100:
        y = x + 1
    elif x.sum() > 0:
        y = x + 2
    else:
        y = x + 3
    return y


@one
def nested(x):
    y = x * 1
    if x.sum() > 0:
        if x[0] > x[1]:
            y = y + 1
        else:
            y = y + 2
        y = y * 2
    return y.sum()


@one
def a_condition_of_two(x):
    if x.sum() > 0 and x[0] > 0.5:
        return x * 2
    return x * 3


@one
def a_condition_of_either(x):
    if x.sum() < 0 or not x[1] < 0.5:
        return x * 2
    return x * 3


@one
def a_number(x):
    scale = 2.0 if x.sum() > 0 else 0.5
    return x * scale


@one
def a_count(x):
    n = 0
    for i in range(3):
        if x[i] > 0.5:
            n += 1
    return x * n, n


@one
def a_flag(x):
    flag = False
    if x.sum() > 0:
        flag = True
    return (x * 2 if flag else x * 3), flag


@one
def a_negated_truth(x):
    bad = not (x > 0).all()
    if bad:
        x = x * 0 + 1
    else:
        x = x * 2
    return x, bad


@one
def bool_of_a_tensor(x):
    good = bool(x.sum() > 0)
    return (x + 1 if good else x - 1), good


@one
def a_number_of_a_tensor(x):
    s = x.sum().item()
    if s > 0:
        return x / s
    return x * s


@one
def an_assertion_that_holds(x):
    assert x.abs().sum() > 0, "all zeros"
    return x * 2


@one
def a_break(x):
    y = x * 1
    for i in range(4):
        if y.abs().sum() > 4:
            break
        y = y * 2 + i
    return y * 3


@one
def a_continue(x):
    total = x * 0
    for i in range(3):
        if x[i] < 0.5:
            continue
        total = total + x * i
    return total + 0


@one
def temporaries_of_one_way(x):
    if x.sum() > 0:
        a = x * 2
        b = a.exp()
        y = a + b
    else:
        c = x.abs()
        y = c + 1
    return y


@one
def a_tuple(x):
    a, b = (x + 1, x + 2) if x.sum() > 0 else (x * 3, x * 4)
    return a - b


@one
def swapped(x):
    a, b = x * 2, x * 3
    if x.sum() > 0:
        a, b = b, a
    return a - 2 * b


@one
def draws_alike(x):
    if x.sum() > 0:
        y = x + eager.rand(3)
    else:
        y = x - eager.rand(3)
    return y * eager.rand(3)


@one
def a_function_that_returns_early(x):
    def clip(v):
        n = v.norm()
        if n > 1:
            return v / n
        return v * 1

    return clip(x) + clip(-x * 3)


@one
def inside_with(x):
    with eager.no_grad():
        if x.sum() > 0:
            y = x * 2
        else:
            y = x * 3
    return y


@one
def inside_try(x):
    try:
        if x.sum() > 0:
            y = x * 2
        else:
            y = x * 3
    finally:
        z = 1
    return y * z


@one
def a_return_inside_with(x):
    with eager.no_grad():
        if x.sum() > 0:
            return x * 2
        y = x * 3
    return y + 1


@one
def an_index_out_of_range_in_the_other_way(x):
    place = (x > 0).sum() + 1
    if place < 3:
        return x[place] * 2
    return x[0] * 3


def attribute(x, b):
    if x.sum() > 0:
        b.value = x * 2
    return x + 1


one(attribute, box(value=lambda: eager.ones(3)))


def attribute_of_both(x, b):
    if x.sum() > 0:
        b.value = x * 2
        b.n = b.n + 1
    else:
        b.value = x * 3
    return b.value + b.n


one(attribute_of_both, box(value=lambda: eager.ones(3), n=1))


def a_new_attribute(x, b):
    if x.sum() > 0:
        b.fresh = x * 2
    else:
        b.fresh = x * 3
    return x + 1


one(a_new_attribute, box())


def an_entry(x, d):
    if x.sum() > 0:
        d["loss"] = x.sum()
    return x + d["loss"]


one(an_entry, lambda: (eager.rand(3), {"loss": eager.tensor(1.0)}))


def an_entry_of_a_list(x, items):
    if x.sum() > 0:
        items[1] = x * 2
    return x + items[1]


splits(an_entry_of_a_list, lambda: (eager.rand(3), [eager.ones(3), eager.ones(3)]))


@one
def a_list_of_its_own(x):
    parts = [x * 1, x * 2]
    if x.sum() > 0:
        parts[0] = x * 5
    return parts[0] + parts[1]


@one
def a_dictionary_of_its_own(x):
    d = {"a": x * 1}
    if x.sum() > 0:
        d["a"] = d["a"] * 7
    return d["a"]


@one
def a_variable_of_a_closure(x):
    y = x * 1

    def f():
        nonlocal y
        if x.sum() > 0:
            y = y * 2

    f()
    return y


def a_write_in_place(x, w):
    if x.sum() > 0:
        w.add_(x)
    return w * 2


one(a_write_in_place, tensors(3, 3))


def writes_in_both(x, w, v):
    if x.sum() > 0:
        w.add_(x)
        v.mul_(2)
    else:
        w.mul_(x)
    return w * v


one(writes_in_both, tensors(3, 3, 3))


def a_write_to_a_part(x, w):
    if x.sum() > 0:
        w[1:].zero_()
    return w.sum()


one(a_write_to_a_part, tensors(3, 3))


@one
def a_write_to_its_own(x):
    y = x.clone()
    if x.sum() > 0:
        y.mul_(3)
    y.add_(1)
    return y


def clipping(x, w):
    (w * x).sum().backward()
    norm = w.grad.norm()
    if norm > 0.7:
        w.grad.mul_(0.7 / norm)
    return norm


one(clipping, with_gradient(3, 3))


def a_step_if_finite(x, w):
    (w.log() * x).sum().backward()
    if w.grad.isfinite().all():
        with eager.no_grad():
            w.sub_(w.grad * 0.1)
    return w.detach() * 1


one(a_step_if_finite, with_gradient(3, 3))


def gradient_through_both(x, w):
    h = w * w
    if x.sum() > 0:
        y = h * x
    else:
        y = (h * 2).exp()
    y.sum().backward()
    return y.detach()


one(gradient_through_both, with_gradient(3, 3))


def gradient_twice(x, w):
    y = (w * w * w if x.sum() > 0 else (w * 2).exp()).sum()
    (g,) = eager.autograd.grad(y, [w], create_graph=True)
    (g * g).sum().backward()
    return g.detach()


one(gradient_twice, with_gradient(3, 3))


def a_loss_that_is_scaled(x, w):
    loss = (w * x).square().sum()
    if loss > 0.3:
        loss = loss * 0.5
    loss.backward()
    return loss.detach()


one(a_loss_that_is_scaled, with_gradient(3, 3))


def early_stopping(x, w):
    best, wait = eager.tensor(1e9), 0
    for _ in range(4):
        loss = (w * x).square().sum()
        if loss < best:
            best, wait = loss * 1, 0
        else:
            wait = wait + 1
        w.mul_(0.5)
    return best, wait


one(early_stopping, tensors(3, 3))


def an_adaptive_step(x, w):
    h, y = eager.tensor(0.5), w * 1
    for _ in range(3):
        full = y + h * x * y
        half = y + h / 2 * x * y
        half = half + h / 2 * x * half
        err = (full - half).abs().max()
        if err < 0.05:
            y = half
            h = h * 1.5
        else:
            h = h * 0.5
    return y + 0, h + 0


one(an_adaptive_step, tensors(3, 3))


@one
def draws_that_are_forgotten(x):
    y = x * eager.rand(3)
    if x.sum() > 0:
        with eager.random.fork_rng():
            eager.manual_seed(3)
            y = y + eager.rand(3)
    with eager.random.fork_rng():
        y = y + eager.rand(3)
        with eager.random.fork_rng():
            eager.manual_seed(-1)
            y = y + eager.rand(3)
        y = y + eager.rand(3)
    return y + eager.rand(3)


@one
def draws_that_are_forgotten_in_rounds(x):
    y, rounds = x * 1, 0
    while y.abs().sum() > 0.5:
        with eager.random.fork_rng():
            eager.manual_seed(5)
            y = y * eager.rand(3)
        rounds = rounds + 1
    return y + eager.rand(3), rounds


@one
def a_function_whose_draws_are_forgotten(x):
    @eager.random.fork_rng()
    def noise(x):
        return x + eager.rand(3)

    return noise(x) if x.sum() > 0 else noise(x) + noise(x) + 1


def names_of_histories(x, w):
    if x.sum() > 0:
        y = w * x
    else:
        y = w + x
    return y


one(names_of_histories, with_gradient(3, 3))


def names_of_several_histories(x, w):
    if x.sum() > 0:
        y, z = (w * x).sin(), (w * x).exp()
    else:
        y, z = (w + x).sin(), w - x
    return y, z


one(names_of_several_histories, with_gradient(3, 3))
