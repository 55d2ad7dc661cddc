"""The rest of `branch_programs`: what is given up where it raises, or splits as it always did."""

import eager
from tests.jitcap.capture.branch_programs import SPLITS as SPLITS
from tests.jitcap.capture.branch_programs import box, splits, tensors, with_gradient

# ---- one graph, given up where it raises


@splits
def raises(x):
    if x.sum() < 0:
        raise ValueError("negative")
    return x * 2


@splits
def asserts(x):
    assert x.sum() > 0, "negative"
    return x * 2


@splits
def raises_and_catches(x):
    try:
        if x.sum() < 0:
            raise ValueError("negative")
        y = x * 2
    except ValueError:
        y = x * 3
    return y


def raises_after_a_write(x, w):
    w.add_(1)
    if x.sum() < 0:
        raise ValueError("negative")
    return w * x


splits(raises_after_a_write, tensors(3, 3))


# ---- not one graph


@splits
def the_argument_itself(x):
    if x.sum() > 0:
        x = x * 2
    return x


@splits
def two_of_one_memory(x):
    if x.sum() > 0:
        y = x * 2
        z = y.detach()
    else:
        y = x * 3
        z = y * 2
    y.add_(1)
    return y, z


@splits
def the_same_or_another(x):
    y = x * 2
    z = y
    if x.sum() > 0:
        z = x * 3
    z.add_(1)
    return y, z


@splits
def two_names(x):
    y = x * 2
    z = y if x.sum() > 0 else x * 3
    return y, z


@splits
def is_it_the_same(x):
    y = x * 2
    z = y if x.sum() > 0 else x * 3
    return (z is y), z + 1


@splits
def shapes_differ(x):
    y = x if x.sum() > 0 else x[:2]
    return y + 1


@splits
def types_differ(x):
    y = None
    if x.sum() > 0:
        y = x * 2
    return x if y is None else y


@splits
def a_gradient_after_one_way_only(x, w=None):
    w = eager.ones(3).requires_grad_()
    y = x * w if x.sum() > 0 else x * 2
    return y


def other_parameters(x, a, b):
    y = x * a if x.sum() > 0 else x * b
    y.sum().backward()
    return a.grad is None, b.grad is None


splits(other_parameters, with_gradient(3, 3, 3))


def appending(x, log):
    if x.sum() > 0:
        log.append(x.sum().item())
    return x * 2


splits(appending, lambda: (eager.rand(3), []))


def an_attribute_of_one_way(x, b):
    if x.sum() > 0:
        b.fresh = x * 2
    return hasattr(b, "fresh")


splits(an_attribute_of_one_way, box())


def deleting(x, b):
    if x.sum() > 0:
        del b.value
    return sorted(vars(b))


splits(deleting, box(value=1))


@splits
def draws_unlike(x):
    if x.sum() > 0:
        x = x + eager.rand(3)
    else:
        x = x * 2
    return x * eager.rand(3)


@splits
def an_iterator(x):
    numbers = iter([1.0, 2.0, 3.0])
    y = x * 1
    if x.sum() > 0:
        y = y * next(numbers)
    return y * next(numbers)


@splits
def a_view(x):
    y = x * 2
    z = y[1:] if x.sum() > 0 else y[:2]
    z.add_(1)
    return y


@splits
def a_while_loop(x):
    while x.abs().sum() < 10:
        x = x * 2
    return x


@splits
def local_names(x):
    if x.sum() > 0:
        a = x * 2  # noqa: F841
    return sorted(locals())


@splits
def unbound_after_one_way(x):
    if x.sum() > 0:
        y = x * 2
    try:
        return y
    except UnboundLocalError:
        return x * 3


@splits
def a_generator(x):
    def parts():
        if x.sum() > 0:
            yield x * 2
        yield x * 3

    return sum(parts())


def zero_grad_in_one_way(x, w):
    (w * x).sum().backward()
    if x.sum() > 0:
        w.grad = None
    return w.grad is None


splits(zero_grad_in_one_way, with_gradient(3, 3))


def requires_grad_later(x, w):
    y = x * w
    z = y if x.sum() > 0 else x * 3
    z.requires_grad_()
    return y.requires_grad, z + 1


splits(requires_grad_later, tensors(3, 3))


@splits
def an_attribute_of_a_tensor(x):
    y = x * 2
    z = y if x.sum() > 0 else x * 3
    z.tag = 1
    return hasattr(y, "tag"), z + 1


@splits
def a_tensor_as_a_key(x):
    y = x * 2
    z = y if x.sum() > 0 else x * 3
    return len({y: 1, z: 2})


@splits
def a_detached_part(x):
    y = x * 2
    z = y.detach() if x.sum() > 0 else x * 3
    z.add_(1)
    return y, z


@splits
def a_write_before_and_after(x):
    y = x * 2
    z = y
    if x.sum() > 0:
        y.add_(1)
        z = x * 5
    y.mul_(2)
    return z + 0, y


def a_hook(x, w):
    y = w * 2
    if x.sum() > 0:
        y = y * x
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    return y.detach() + 0


splits(a_hook, with_gradient(3, 3))


def nested_ties(x, w):
    y = w * 1
    for i in range(3):
        if x[i] > 0.5:
            y = y + x
    w.mul_(3)
    return y


splits(nested_ties, tensors(3, 3))


def the_argument_or_an_attribute(x, b):
    y = x
    if x.sum() < 0:
        y = b.value
    b.last = y
    return y is x


splits(the_argument_or_an_attribute, box(value=lambda: eager.ones(3), last=None))


def swaps_attributes(x, b):
    if x.sum() > 0:
        b.first, b.second = b.second, b.first
    return b.first - b.second


splits(swaps_attributes, box(first=lambda: eager.ones(3), second=lambda: eager.zeros(3)))


@splits
def one_result_twice(x):
    if x.sum() > 0:
        a = b = x * 2
    else:
        a, b = x * 3, x * 4
    a.add_(1)
    return a, b


@splits
def an_exception_of_a_call(x):
    def check(v):
        if v > 3:
            raise ValueError("large")
        return v

    return x * 2 if x.sum() > 0 else x * check(x.abs().sum() + 10)


@splits
def a_function_of_either(x):
    f = eager.sin if x.sum() > 0 else eager.cos
    return f(x)


@splits
def a_count_that_shapes(x):
    n = 2 if x.sum() > 0 else 3
    return x[:n] * 1


@splits
def a_count_in_text(x):
    n = 2 if x.sum() > 0 else 3
    return f"{n} of {x.shape[0]}"


@splits
def a_split_where_draws_are_forgotten(x):
    with eager.random.fork_rng():
        y = eager.rand(3)
        if x.sum() > 0:
            y = y + eager.rand(3) + eager.randn(3)
    return x + y + eager.rand(3)


@splits
def a_return_where_draws_are_forgotten(x):
    with eager.random.fork_rng():
        if x.sum() > 0:
            return eager.rand(3)
        eager.manual_seed(4)
        y = eager.rand(3) * x
    return y + eager.rand(3)


# ---- sizes that data decide are found in a way, where that cannot be ahead of the branch


@splits
def another_size_found_in_each(x):
    return x[x > 0] if x.sum() > 0 else x[x < 0.5]


def an_index_that_the_way_is_for(x, w):
    places = (w * 4).long()
    y = x.sum()
    if (places < 3).all() and x.sum() < 9:
        y = y + x[x[places] > 0.1].sum()
    return y


splits(an_index_that_the_way_is_for, tensors(3, 3))


@splits
def a_size_of_what_is_drawn(x):
    if x.sum() > 0:
        y = eager.nn.functional.dropout(x, 0.5)
        z = y[y != 0].sum()
    else:
        z = eager.nn.functional.dropout(x, 0.2).sum()
    return z + eager.rand(1)


@splits
def sizes_found_in_rounds(x):
    found = eager.tensor(0)
    while x.abs().sum() > 0.2:
        found = found + (x.abs() > 0.1).nonzero().shape[0]
        x = x * 0.5
    return x, found


@splits
def a_division_that_the_way_is_for(x):
    a, d = (x * 10).long(), (x * 2).long()
    total = a.sum()
    if (d != 0).all():
        total = total + a[(a // d) > 2].sum()
    return total
