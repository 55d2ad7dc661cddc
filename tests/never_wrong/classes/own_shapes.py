"""Methods that change a tensor's own shape: unsqueeze_, squeeze_, transpose_, t_."""

import eager
from tests.never_wrong.harness import Program, case, over


@case("own shapes")
def shapes_of_what_is_made():
    def step(x, n):
        y = x * n
        same = y.unsqueeze_(0)
        y.add_(1)
        z = (x + 1).unsqueeze(1).t_()
        w = y.clone().squeeze_()
        w[0] = 9.0
        return y, same is y, z, w, y.t().stride(), z.is_contiguous()

    return over(step, [1, 2])


@case("own shapes")
def shapes_of_what_comes_from_outside():
    x, kept = eager.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), []

    def step(n):
        x.t_()
        x.mul_(n)
        kept.append(x[0])
        return x.shape, x.stride(), x.sum(0)

    return Program(step, [(1,), (2,), (2,)], lambda: (x, kept))


@case("own shapes")
def views_see_no_new_shape():
    x = eager.tensor([[1.0, 2.0], [3.0, 4.0]])
    row = x[0]

    def step(n):
        inner = x.view(-1)
        x.unsqueeze_(0)
        row.unsqueeze_(1)
        inner.add_(n)
        row.mul_(2)
        return inner, x.shape, row

    return Program(step, [(1,), (2,)], lambda: (x, row))


@case("own shapes")
def gradients_through_a_new_shape():
    w = eager.tensor([[1.0, 2.0, 3.0]], requires_grad=True)

    def step(x, n):
        y = w * n
        y.transpose_(0, 1)
        y.squeeze_(1)
        (y[:2] * x).sum().backward()
        try:
            w.unsqueeze_(0)
        except RuntimeError as error:
            return y, str(error)

    return over(step, [1, 2], lambda: w)


@case("own shapes")
def a_shape_changes_and_the_data_too():
    x = eager.tensor([[1.0, 2.0, 3.0]])
    other = x.detach()

    def step(n):
        x.squeeze_(0)
        x.data = x * n
        x.unsqueeze_(0)
        other.add_(n)
        return x, other

    return Program(step, [(1,), (2,)], lambda: (x, other))


@case("own shapes")
def strides_of_dimensions_of_one():
    def step(x, n):
        y = (x * n).expand(3, 2)[:, 1:]
        views = [y.unsqueeze(d) for d in range(3)] + [
            x[None],
            y.t()[..., None, :],
            x[:0].unsqueeze(0),
        ]
        return [(v.stride(), v.transpose(0, -1).stride()) for v in views], views

    return over(step, [1, 2])


@case("own shapes")
def views_whose_base_got_another_layout():
    def pair(kind):
        x = eager.tensor([[1.0, 2.0], [3.0, 4.0]])
        if kind == "turned before":
            x.t_()
        row = x[0]
        if kind == "turned behind":
            x.t_()
        if kind == "deeper":
            x.unsqueeze_(0)
        return x, row

    kinds = "plain", "turned before", "turned behind", "deeper", "turned before", "plain"
    pairs = [pair(kind) for kind in kinds]

    def step(x, row, n):
        x.add_(n)
        row.mul_(2)
        return x.sum(), row

    return Program(step, [(*each, 1) for each in pairs], lambda: pairs)
