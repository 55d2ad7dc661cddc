"""The rest of `branch_programs`: writes in place that are on the tape, and what a way that is given
up has changed."""

import eager
from tests.jitcap.capture.branch_programs import one, splits, tensors, with_gradient
from tests.jitcap.capture.branch_programs_returns import ONE as ONE
from tests.jitcap.capture.branch_programs_returns import SPLITS as SPLITS

# ---- one graph


def scaled_in_place(x, w):
    y = w * 3
    if x.sum() > 0:
        y.mul_(2)
    (y * y).sum().backward()
    return y.detach()


one(scaled_in_place, with_gradient(3, 3))


def scaled_and_handed_out(x, w):
    y = w * 3
    before = y[:2]
    if x.sum() > 0:
        y.add_(x)
    return y, y + 1, before * 2


one(scaled_and_handed_out, with_gradient(3, 3))


def both_write(x, w, v):
    y = (w * 3).exp() + v
    if x.sum() > 0:
        y.mul_(w)
    else:
        y.sub_(v).clamp_(max=2.0)
        y.div_(w)
    return y.sum()


one(both_write, with_gradient(3, 3, 3))


def a_row_is_written(x, w):
    z = w * 2
    row, rest = z[1], z[2:]
    if x.sum() > 0:
        z[0] = x
        row *= 3
    rest += 1
    (z * z + row).sum().backward()
    return z.detach(), row.detach(), rest.detach()


one(a_row_is_written, with_gradient(3, (4, 3)))


def a_view_is_written_in_a_branch_of_a_branch(x, w):
    z = w * 2
    flat = z.view(-1)
    if x.sum() > 0:
        if x[0] > 0.5:
            flat[2:5] *= x[1]
        else:
            z.t().mul_(2)
    elif x[0] < -0.5:
        z[-1] = z[0] * 2
    return (flat * flat).sum(), z.sin().sum()


one(a_view_is_written_in_a_branch_of_a_branch, with_gradient(3, (4, 3)))


def accumulates_in_place(x, w, v):
    total = (w * 0.5).clone()
    for row in (w, v, w * v):
        if (row * x).sum() > 0:
            total += row * w + v
        else:
            total.sub_(v * w).addcmul_(row, row)
    (total * v).sum().backward()


one(accumulates_in_place, with_gradient(3, 3, 3))


def written_below_no_grad(x, w):
    y = w * 3
    if x.sum() > 0:
        with eager.no_grad():
            y.mul_(2)
    y.sum().backward()
    return y.detach()


one(written_below_no_grad, with_gradient(3, 3))


# ---- one graph, given up where Python gives a gradient to fewer tensors


def an_expert_without_rows(x, w, v):
    out = eager.zeros(3, 3)
    for weight, on in ((w, x > -9), (v, x > 0)):
        rows = on.nonzero().flatten()
        if rows.numel() == 0:
            continue
        out[rows] += weight[rows] * 2
    out.sum().backward()
    return out.detach()


splits(an_expert_without_rows, with_gradient(3, (3, 3), (3, 3)))


def a_penalty_in_place(x, w, v):
    loss = w.square().sum()
    if x.sum() > 0:
        loss += v.square().sum()
    loss.backward()
    return loss.detach()


splits(a_penalty_in_place, with_gradient(3, 3, 3))


def a_history_after_one_way(x, w):
    y = x * 2
    if x.sum() > 0:
        y.mul_(w)
    if y.requires_grad:
        y.sum().backward()
    return y.detach(), y.requires_grad


splits(a_history_after_one_way, with_gradient(3, 3))


def written_or_another(x, w):
    y = w * 3
    z = y * 2
    if x.sum() > 0:
        y.mul_(2)
        z = y
    return (y + z).sum()


splits(written_or_another, with_gradient(3, 3))


def a_root_that_is_not_used(x, w):
    y = w * 3
    root = (w - w).sqrt()
    if x.sum() > 0:
        y = y + root
    y.sum().backward()
    return y.detach()


splits(a_root_that_is_not_used, with_gradient(3, 3))


# ---- what the run must not overwrite


def overwritten_where_it_is_needed(x, w, c):
    c = c.detach() + 1
    s = w * c
    if x.sum() > 0:
        c.mul_(2)
    try:
        s.sum().backward()
    except RuntimeError:
        return c
    return s.detach()


splits(overwritten_where_it_is_needed, with_gradient(3, 3, 3))


# ---- a way that is given up


def negative():
    raise ValueError("negative")


def changes_and_raises(x, box):
    seen = [x]
    if x.sum() < 0:
        box["count"] += 1
        box["new"] = seen
        seen.append(x)
        x.mul_(2)
        negative()
    return x * (box["count"] + 1), seen


splits(changes_and_raises, lambda: (eager.rand(3) + 0.25, {"count": 0}))


def takes_and_raises(x, w):
    seen = [x * 2, w]
    if x.sum() < 0:
        seen.pop()
        negative()
    return seen[-1] + x, len(seen)


splits(takes_and_raises, tensors(3, 3))


def enables_gradients_again(x, w):
    with eager.no_grad():
        if x.sum() > 0:
            with eager.enable_grad():
                y = w * 2
        else:
            with eager.enable_grad():
                y = w * 3
    return y


splits(enables_gradients_again, with_gradient(3, 3))
