"""One tensor or object at two places, at some calls and not at others."""

import copy

import eager
from eager import nn
from jitcap import graph_break
from tests.never_wrong.harness import case, over
from tests.never_wrong.scene import nothing, rows, scene


@case("aliasing")
def one_tensor_given_twice():
    def step(a, b):
        a.add_(1)
        return a * b, a is b

    x, y = eager.ones(2), eager.ones(2)
    return rows(step, (x, y), (x, x), (y, x), (y, y))


@case("aliasing")
def two_views_of_one_batch():
    def step(a, b):
        a.mul_(2)
        return a + b

    whole = eager.arange(6.0)
    return rows(
        step,
        (whole[:3], whole[3:]),
        (whole[:3], whole[1:4]),
        (whole[:3], whole[:3]),
        (whole[:3].clone(), whole[:3]),
        observe=lambda: whole,
    )


@case("aliasing")
def a_view_and_its_base():
    def step(a, b):
        b.add_(1)
        return a.sum(), b.sum()

    whole = eager.arange(4.0)
    return rows(
        step, (eager.ones(4), eager.ones(2)), (whole, whole[:2]), (whole[:2], whole), (whole, whole)
    )


@case("aliasing")
def an_argument_is_a_parameter():
    w = eager.ones(3, requires_grad=True)

    def step(x):
        loss = (w * x).sum() + (w * 2).sum()
        loss.backward()
        return loss.detach()

    return rows(
        step,
        (eager.ones(3),),
        (w,),
        (w.detach(),),
        (eager.ones(3, requires_grad=True),),
        (w,),
        observe=lambda: w.grad,
    )


@case("aliasing")
def two_arguments_that_require_grad_become_one():
    def step(a, b):
        loss = (a * a * b).sum()
        loss.backward()
        return loss.detach()

    a = eager.tensor([1.0, 2.0], requires_grad=True)
    b = eager.tensor([3.0, 4.0], requires_grad=True)
    return rows(step, (a, b), (a, a), (b, a), (b, b), observe=lambda: (a.grad, b.grad))


@case("aliasing")
def weights_are_tied_later():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2)
            self.b = nn.Linear(2, 2)

        def forward(self, x):
            return self.b(self.a(x))

    model = Model()
    x = eager.ones(1, 2)

    def step(x):
        for p in model.parameters():
            p.grad = None
        loss = model(x).sum()
        loss.backward()
        return loss.detach()

    def tie():
        model.b.weight = model.a.weight

    def tie_all():
        model.b = model.a

    def untie():
        model.b = copy.deepcopy(model.a)

    return scene(
        step, tie, tie_all, untie, args=(x,), observe=lambda: [p.grad for p in model.parameters()]
    )


@case("aliasing")
def tied_weights_are_updated_once():
    a, b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    optimizer = eager.optim.SGD([*a.parameters(), *b.parameters()], lr=0.5, momentum=0.5)

    def step(x):
        optimizer.zero_grad()
        b(a(x)).sum().backward()
        optimizer.step()

    def tie():
        b.weight = a.weight

    return scene(
        step, nothing, tie, nothing, args=(eager.ones(1, 2),), observe=lambda: [a.weight, b.weight]
    )


@case("aliasing")
def gradients_share_memory():
    a = eager.ones(2, requires_grad=True)
    b = eager.ones(2, requires_grad=True)

    def step(x):
        (a * x[:2]).sum().backward()
        (b * 2).sum().backward()
        return a.grad + b.grad

    def share():
        a.grad = b.grad

    return scene(step, nothing, share, nothing, observe=lambda: (a.grad, b.grad))


@case("aliasing")
def two_buffers_become_one():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", eager.zeros(3))
            self.register_buffer("b", eager.zeros(3))

        def forward(self, x):
            self.a += 1
            self.b += x
            return self.a * 10 + self.b

    model = Model()

    def join():
        model.b = model.a

    return scene(lambda x: model(x), nothing, join, nothing, observe=lambda: (model.a, model.b))


@case("aliasing")
def a_buffer_is_the_argument():
    layer = nn.BatchNorm1d(2)

    def step(x):
        return layer(x)

    x = eager.tensor([[1.0, 2.0], [3.0, 5.0]])
    mean = layer.running_mean
    return rows(step, (x,), (mean.expand(2, 2),), (x,), observe=lambda: mean)


@case("aliasing")
def a_list_that_is_also_an_attribute():
    class State:
        pass

    state = State()
    state.items = [1]

    def step(x, items):
        items.append(len(items))
        return x * len(state.items), items is state.items

    x = eager.ones(2)
    return rows(step, (x, []), (x, state.items), (x, [1]), observe=lambda: state.items)


@case("aliasing")
def one_list_given_twice():
    def step(x, a, b):
        a.append(1)
        return x * len(b), a == b

    x, p, q = eager.ones(2), [], []
    return rows(step, (x, p, q), (x, p, p), (x, q, p))


@case("aliasing")
def one_dictionary_given_twice():
    def step(x, a, b):
        a["n"] = a.get("n", 0) + 1
        b["m"] = b.get("n", 10)
        return x * b["m"]

    x, p, q = eager.ones(2), {}, {}
    return rows(step, (x, p, q), (x, p, p), (x, q, q))


@case("aliasing")
def rows_of_a_matrix_become_one_list():
    matrix = [[1], [2]]

    def step(x):
        matrix[0].append(5)
        return x * len(matrix[1])

    def share():
        matrix[1] = matrix[0]

    return scene(step, share, nothing, observe=lambda: matrix)


@case("aliasing")
def objects_share_a_part():
    class Box:
        def __init__(self, part):
            self.part = part

    a, b = Box([1]), Box([2])

    def step(x):
        a.part[0] = a.part[0] + 1
        return x * b.part[0]

    def share():
        b.part = a.part

    return scene(step, share, nothing, observe=lambda: (a, b))


@case("aliasing")
def objects_share_their_dictionary():
    class Box:
        n = 0

    a, b = Box(), Box()

    def step(x):
        a.n += 1
        return x * b.n

    def share():
        b.__dict__ = a.__dict__

    return scene(step, share, nothing, observe=lambda: (a.n, b.n))


@case("aliasing")
def a_default_is_the_argument():
    def step(x, items, seen=[]):  # noqa: B006
        seen.append(1)
        items.append(2)
        return x * len(seen), items is seen

    x = eager.ones(1)
    return rows(step, (x, []), (x, step.__defaults__[0]), (x, []))


@case("aliasing")
def a_closure_shares_its_cell():
    def pair():
        count = 0

        def up():
            nonlocal count
            count += 1
            return count

        def read():
            return count

        return up, read

    up, read = pair()
    other_up, other_read = pair()

    def step(x, bump, look):
        bump()
        return x * look()

    x = eager.ones(2)
    return rows(step, (x, up, read), (x, up, other_read), (x, other_up, other_read), (x, up, read))


@case("aliasing")
def what_is_kept_is_changed_at_its_old_place():
    kept = []

    def step(x):
        y = x * 2
        kept.append(y)
        kept[0].add_(1)
        return y, kept[0] is y

    return scene(step, nothing, kept.clear, observe=lambda: kept)


@case("aliasing")
def the_result_is_given_again():
    def step(x, previous):
        x.add_(previous)
        return x

    x = eager.ones(2)
    return rows(step, (x, eager.ones(2)), (x, x), (x, x[:1]), (x, x.detach()))


@case("aliasing")
def is_between_arguments():
    def step(a, b):
        return a * 2 if a is b else a * b

    x, y = eager.ones(2), eager.full((2,), 3.0)
    return rows(step, (x, y), (x, x), (y, x))


@case("aliasing")
def is_between_a_number_and_itself():
    big = 10**20

    def step(x, a, b):
        return a is b, a == b

    x = eager.ones(1)
    return rows(step, (x, big, big), (x, big, int("1" + "0" * 20)), (x, big, big))


@case("aliasing")
def a_state_of_the_optimizer_is_shared():
    a = eager.ones(2, requires_grad=True)
    b = eager.ones(2, requires_grad=True)
    optimizer = eager.optim.SGD([a, b], lr=0.5, momentum=0.5)

    def step(x):
        optimizer.zero_grad()
        (a * 2 + b * 3).sum().backward()
        optimizer.step()

    def share():
        optimizer.state[a]["momentum_buffer"] = optimizer.state[b]["momentum_buffer"]

    return scene(step, nothing, share, nothing, observe=lambda: (a, b))


@case("aliasing")
def a_tensor_and_its_data():
    def step(a, b):
        a.mul_(3)
        return b + 1

    x = eager.ones(2)
    return rows(step, (x, eager.ones(2)), (x, x.data), (x, x.view(2)), (x, eager.ones(2)))


@case("aliasing")
def a_base_whose_data_is_replaced():
    a = eager.ones(3)
    b = a[1:]

    def step(x):
        b.mul_(2)
        a.add_(x)
        return a + 1

    def replace():
        a.data = eager.ones(3)

    return scene(step, nothing, replace, nothing, observe=lambda: (a, b))


@case("aliasing")
def the_program_replaces_the_data_of_a_base():
    a = eager.ones(3)
    b = a[1:]

    def step(x):
        b.data.add_(1)
        a.data = a * 2
        return a + x

    return scene(step, nothing, nothing, observe=lambda: (a, b))


@case("aliasing")
def a_view_that_is_met_when_its_base_holds_other_data():
    a, other = eager.ones(3), eager.zeros(3)
    b = a[1:]

    def step(x):
        a.data = other
        a.add_(x)
        b.mul_(2)
        return a + 1

    return scene(step, nothing, nothing, observe=lambda: (a, b, other))


@case("aliasing")
def set_members_become_equal():
    class Key:
        pass

    a, b = Key(), Key()

    def step(x, p, q):
        return x * len({p, q}), {p: 1, q: 2}[p]

    x = eager.ones(1)
    return rows(step, (x, a, b), (x, a, a), (x, b, a))


@case("aliasing")
def the_module_is_in_the_list_twice():
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    model = nn.Sequential(a, b)

    def step(x):
        return model(x), len(list(model.parameters())), len(list(model.modules()))

    def replace():
        model[1] = a

    return scene(step, replace, lambda: model.append(b), args=(eager.ones(1, 2),))


@case("aliasing")
def a_parameter_shares_memory_with_another():
    a, b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)

    def step(x):
        with eager.no_grad():
            a.weight.add_(1)
        return b(x).detach()

    def share():
        b.weight.data = a.weight.data

    return scene(step, share, nothing, args=(eager.ones(1, 2),), observe=lambda: b.weight)


@case("aliasing")
def a_list_holds_itself():
    items = [1]

    def step(x):
        return x * len(items), items[-1] is items

    return scene(step, lambda: items.append(items), lambda: items.pop(), observe=lambda: items)


@case("aliasing")
def the_first_of_a_list_that_was_empty():
    items = []

    def step(x):
        items.append(len(items) + 1)
        return x * items[0], items[0]

    return scene(step, nothing, items.clear, lambda: items.insert(0, 9), observe=lambda: items)


@case("aliasing")
def the_first_of_a_list_that_was_empty_is_written():
    items = []

    def step(x):
        items.append(1)
        items[0] = 5
        return x * len(items)

    return scene(step, nothing, lambda: items.extend([7]), observe=lambda: items)


@case("aliasing")
def an_empty_list_is_emptied_again():
    items = []

    def step(x):
        items.append(1)
        del items[0]
        return x * len(items)

    return scene(step, lambda: items.extend([7, 8]), nothing, observe=lambda: items)


@case("aliasing")
def gradients_of_one_leaf_by_two_names():
    class State:
        pass

    state = State()
    state.a, state.b = eager.ones(2, requires_grad=True), eager.ones(2, requires_grad=True)

    def step(x):
        (state.a * 2 + state.b * 3).sum().backward()

    def join():
        state.b = state.a
        state.a.grad = None

    return scene(step, join, nothing, observe=lambda: (state.a.grad, state.b.grad))


@case("aliasing", splits=1)
def a_tuple_holds_itself():
    def step(x, n):
        inner = [n]
        outer = (inner, {"inner": inner})
        inner.append((outer, [outer]))
        table = {"whole": (outer, outer)}
        inner.append(table)
        return x * n, outer, table

    return over(step, [1, 2])


@case("aliasing")
def a_tuple_that_holds_itself_lives_over_a_split():
    def step(x, n):
        outer = ([n], x * n)
        outer[0].append(outer)
        graph_break()
        outer[0].append(n)
        return outer

    return over(step, [1, 2])


@case("aliasing")
def a_part_of_windows_that_overlap_is_written():
    def step(x, n):
        y = eager.cat([x, x + n])
        windows = eager.as_strided(y, (3, 2), (1, 1))
        windows[0, 1] = 9.0
        windows[:, 0].mul_(2)
        return y, windows * 1

    return over(step, [1, 2])
