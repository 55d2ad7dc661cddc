"""The rest of `branch_programs`: what is appended to lists after the ways of a branch."""

import eager
from tests.jitcap.capture.branch_programs import ONE as ONE
from tests.jitcap.capture.branch_programs import one, splits, with_gradient
from tests.jitcap.capture.branch_programs_split import SPLITS as SPLITS

# ---- one graph


@one
def both_append(x):
    out = [x * 1]
    also = out
    for i in range(3):
        if x[i] > 0.3:
            out.append(x * i)
            also += [i, x + i]
        else:
            also.append(x.abs())
            out.extend((7, x - i))
            out[0] = x * 3
    return out, len(also), also is out


@one
def a_list_of_one_length(x):
    out = [x * 1, x * 2]
    if x.sum() > 0:
        out.pop()
        out.append(x + 1)
    else:
        out.insert(0, x * 4)
        out.pop()
    return out


class Held:
    def __init__(self):
        self.items = []

    def add(self, value):
        self.items.append(value)


@one
def an_object_that_both_fill(x):
    held = Held()
    for i in range(3):
        if x[i] > 0:
            held.add(x[i] * 2)
        else:
            held.add(-x[i])
    return eager.stack(held.items) + eager.stack([v * 2 if v > 0 else -v for v in x])


def both_append_with_a_gradient(x, w):
    out = []
    for i in range(3):
        h = x * w
        if x[i] > 0:
            out.append(h.sin())
        else:
            out.append(h * i)
    eager.stack(out).sum().backward()
    return len(out)


one(both_append_with_a_gradient, with_gradient(3, 3))


def elements_of_a_list_from_outside(x, log, best, i):
    y = x.sum()
    if y > 0.5:
        log[0] += 1
        best[-1] = y * 2
    elif x[0] < -0.3:
        log[0], log[1] = log[1] + 1, log[0]
    best[0] = best[0] + log[1]
    return log[0] * 1, best[i]


one(
    elements_of_a_list_from_outside,
    lambda: (eager.rand(3) + 0.25, [1.0, 2.0], [eager.zeros(()), eager.ones(())], 1),
)


# ---- not one graph


@splits
def one_appends_more(x):
    out = [x * 1]
    if x.sum() > 0:
        out.append(x + 1)
    for v in (x, x * -1):
        if v.sum() > 0:
            out += [v, v + 1]
        else:
            out.append(v * 2)
    return out, len(out)


@splits
def an_appended_object_is_asked(x):
    y, out = x * 2, []
    if x.sum() > 0:
        out.append(y)
    else:
        out.append(x * 3)
    out[0].add_(1)
    return out[0] is y, out, y


def a_list_that_grows_while_it_is_gone_through(x):
    out = [x * 1, x + 1]
    for t in out:
        if t.sum() > 0:
            if len(out) < 4:
                out.append(t * -1)
        elif len(out) < 4:
            out.append(t * 2)
    return out


one(a_list_that_grows_while_it_is_gone_through)


def elements_of_a_list_from_outside(x, best, rows):
    """Cells of a closure, say, that hold the best loss and how often it was missed."""
    if x.sum().item() < best[0]:
        best[0], best[-1] = x.sum().item(), 0
        rows[0], rows[1] = rows[1], rows[0]
    else:
        best[-1] += 1
        rows[1] = x * 2
    k = 0
    while (x * k).sum() < 2 and k < 3:
        best[1] = best[1] + 1.5
        k += 1
    return best[0] * 2, rows[1]


def world_of_lists():
    x = eager.tensor([0.5, 0.25, 1.0])
    return x, [0.0, 1.0, 2], [eager.ones(3), eager.zeros(3)]


one(elements_of_a_list_from_outside, world_of_lists)
