"""The rest of `branch_programs`: a view after one way, and a tensor of its own after the other."""

import eager
from tests.jitcap.capture.branch_programs import one, splits, tensors, with_gradient
from tests.jitcap.capture.branch_programs_lists import ONE as ONE
from tests.jitcap.capture.branch_programs_lists import SPLITS as SPLITS


def teacher_forcing(x, target, w):
    inputs, loss = x, 0.0
    for t in range(3):
        out = eager.tanh(inputs @ w)
        loss = loss + (out - target[t]).square().sum()
        inputs = target[t] if x.sum() > t else out.detach()
    loss.backward()
    return loss.detach()


one(teacher_forcing, lambda: (*tensors(3, (3, 3))(), eager.eye(3).requires_grad_()))


def tokens_by_columns(x, target):
    tokens, found = target[:, 0], []
    for t in range(1, 4):
        found.append(tokens.unsqueeze(0) + x.sum())
        tokens = target[:, t].long() if x[0] > 0 else x.argmax().expand(3) + tokens
        found.append((tokens * 2).t().reshape(-1))
    return found


one(tokens_by_columns, lambda: (eager.rand(3) + 0.25, eager.arange(12).reshape(3, 4)))


@one
def a_view_of_what_is_made_inside(x):
    y = x * 3
    z = y[1:] if x.sum() > 0 else x[:2] + 1
    return z.view(2, 1) * 2, z.exp()


def a_result_without_a_gradient(x, w, v):
    if x.sum() > 0:
        a, b = w * x, v * x
    else:
        a, b = w.exp(), v.exp()
    a.sum().backward()
    return b.detach()


one(a_result_without_a_gradient, with_gradient(3, 3, 3))


def asks(name, ask, *shapes):
    """A program that asks a view, or what is no view, and says what it is told."""

    def program(x, y):
        z = y[:, 1] if x.sum() > 0 else x * 2
        return ask(z, y)

    splits(program, tensors(3, (3, 3)))
    SPLITS[name] = SPLITS.pop("program")


asks("leaves", lambda z, y: z)
asks("part_leaves", lambda z, y: z[1:])
asks("base", lambda z, y: z._base is y)
asks("version", lambda z, y: (y.add_(1), z._version))
asks("strides", lambda z, y: (z.stride(), (z + 1).stride()))
asks("strides_by_the_class", lambda z, y: eager.Tensor.stride(z[1:]))
asks("is_contiguous", lambda z, y: z.data.is_contiguous())
asks("offset", lambda z, y: z.storage_offset())
asks("wants_a_view", lambda z, y: z.unsqueeze(0).view(3) + 1)
asks("is_written", lambda z, y: z.mul_(2).sum())
asks("base_is_written", lambda z, y: (y.zero_(), z + 1)[1])
asks("array", lambda z, y: z.numpy().strides)


@splits
def a_view_moved(x):
    y = x.expand(3, 3)
    return (y * 2 if x.sum() > 0 else y.t()) + 1


def a_view_with_a_gradient(x, w):
    (w[0] if x.sum() > 0 else w[1] * 2).sum().backward()


splits(a_view_with_a_gradient, with_gradient(3, (3, 3)))
