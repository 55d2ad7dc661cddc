"""What is shared changes from call to call; what was not there appears, and what was there goes."""

import collections
import copy
import types

import eager
from eager import nn

from .harness import Call, Program, case
from .scene import module, nothing, rows, scene

# ---- the same tensor or object at two places


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

    return scene(step, nothing, tie, nothing, args=(eager.ones(1, 2),), observe=lambda: [a.weight, b.weight])


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


# ---- absence


@case("absence")
def an_attribute_appears_and_goes():
    class State:
        pass

    state = State()

    def step(x):
        try:
            return x * state.scale
        except AttributeError as error:
            return str(error).rpartition("State")[2]

    return scene(
        step, lambda: setattr(state, "scale", 3), lambda: delattr(state, "scale"),
        lambda: setattr(State, "scale", 4),
    )


@case("absence")
def a_class_attribute_is_hidden():
    class State:
        scale = 2

    class Derived(State):
        pass

    state = Derived()
    return scene(
        lambda x: x * state.scale,
        lambda: setattr(Derived, "scale", 3),
        lambda: setattr(state, "scale", 4),
        lambda: delattr(Derived, "scale"),
        lambda: delattr(state, "scale"),
        lambda: delattr(State, "scale"),
    )


@case("absence")
def a_member_of_a_class_is_swapped_for_another():
    """The number of members stays the same."""

    class Base:
        scale = 2

    class Derived(Base):
        other = 1

    state = Derived()

    def swap():
        del Derived.other
        Derived.scale = 5

    return scene(lambda x: x * state.scale, swap)


@case("absence")
def a_key_appears_and_goes():
    table = {"a": 1}

    def step(x):
        return x * table.get("b", 10), "b" in table, table.get("c") is None

    return scene(
        step, lambda: table.update(b=2), lambda: table.pop("b"), lambda: table.update(c=None)
    )


@case("absence")
def a_key_of_another_type():
    table = {"1": 5}

    def step(x):
        return 1 in table, True in table, 1.0 in table, table.get(1, 7)

    return scene(step, lambda: table.update({1: 2}), lambda: table.update({True: 3}))


@case("absence")
def a_member_of_a_set_appears():
    names = {"a"}

    def step(x):
        return x * (2 if "b" in names else 3), len(names)

    return scene(step, lambda: names.add("b"), lambda: names.discard("a"))


@case("absence")
def an_element_appears_at_the_end():
    items = [1, 2]

    def step(x):
        try:
            return x * items[2]
        except IndexError as error:
            return str(error)

    return scene(step, lambda: items.append(7), lambda: items.pop(), items.clear)


@case("absence")
def a_slot_is_filled_and_emptied():
    class Slotted:
        __slots__ = ("scale",)

    state = Slotted()

    def step(x):
        return x * getattr(state, "scale", 1), hasattr(state, "scale")

    return scene(step, lambda: setattr(state, "scale", 4), lambda: delattr(state, "scale"))


@case("absence")
def a_fallback_appears():
    class State:
        pass

    state = State()

    def step(x):
        return x * getattr(state, "scale", 1)

    return scene(
        step,
        lambda: setattr(State, "__getattr__", lambda self, name: 5),
        lambda: setattr(State, "__getattr__", lambda self, name: 6),
        lambda: delattr(State, "__getattr__"),
    )


@case("absence")
def a_fallback_is_hidden_by_an_attribute():
    class State:
        def __getattr__(self, name):
            return 5

    state = State()
    return scene(
        lambda x: x * state.scale,
        lambda: setattr(state, "scale", 2),
        lambda: delattr(state, "scale"),
        lambda: setattr(State, "scale", 3),
    )


@case("absence")
def getattribute_appears():
    class State:
        scale = 2

    state = State()
    return scene(
        lambda x: x * state.scale,
        lambda: setattr(State, "__getattribute__", lambda self, name: 9),
        lambda: delattr(State, "__getattribute__"),
    )


@case("absence")
def a_property_appears():
    class State:
        pass

    state = State()
    state.scale = 2
    return scene(
        lambda x: x * state.scale,
        lambda: setattr(State, "scale", property(lambda self: 9)),
        lambda: delattr(State, "scale"),
    )


@case("absence")
def a_setter_appears():
    class State:
        pass

    log, state = [], State()

    def step(x):
        state.scale = 3
        return x

    def change():
        State.__setattr__ = lambda self, name, value: log.append((name, value))

    return scene(step, change, lambda: delattr(State, "__setattr__"), observe=lambda: (log, vars(state)))


@case("absence")
def a_special_method_appears():
    class State:
        pass

    state = State()

    def step(x):
        return bool(state), (state == 1), str(state) == "s"

    def change():
        State.__bool__ = lambda self: False
        State.__eq__ = lambda self, other: True
        State.__str__ = lambda self: "s"

    def lengths():
        del State.__bool__
        State.__len__ = lambda self: 0

    return scene(step, change, lengths)


@case("absence")
def contains_and_iter_appear():
    class State:
        def __getitem__(self, i):
            if i > 2:
                raise IndexError
            return i

    state = State()

    def step(x):
        return 2 in state, list(state), 9 in state

    def iterate():
        State.__iter__ = lambda self: iter([9])

    def contain():
        State.__contains__ = lambda self, item: item == 7

    return scene(step, iterate, contain)


@case("absence")
def a_reflected_operator_appears():
    class Left:
        def __add__(self, other):
            return "left"

    class Right(Left):
        pass

    a, b = Left(), Right()

    def step(x):
        return a + b

    return scene(step, lambda: setattr(Right, "__radd__", lambda self, other: "right"))


@case("absence")
def an_in_place_operator_appears():
    class Sum:
        def __init__(self, n):
            self.n = n

        def __add__(self, other):
            return Sum(self.n + other)

    total = Sum(1)

    def step(x):
        t = total
        t += 1
        return x * t.n, t is total

    def change():
        def iadd(self, other):
            self.n += other
            return self

        Sum.__iadd__ = iadd

    return scene(step, change, nothing, observe=lambda: total.n)


@case("absence")
def a_module_attribute_appears():
    m = module("")

    def step(x):
        return x * getattr(m, "scale", 1), hasattr(m, "scale")

    return scene(step, lambda: setattr(m, "scale", 4), lambda: delattr(m, "scale"))


@case("absence")
def a_global_appears_and_goes():
    m = module(
        "def step(x):\n  try: return x * SCALE\n  except NameError as e: return str(e)\n"
    )
    return scene(
        m.step, lambda: setattr(m, "SCALE", 2), lambda: delattr(m, "SCALE")
    )


@case("absence")
def a_closure_variable_is_empty():
    def build():
        def step(x):
            try:
                return x * scale
            except NameError as error:
                return str(error)

        def put(value):
            nonlocal scale
            scale = value

        def drop():
            nonlocal scale
            del scale

        scale = 0
        del scale
        return step, put, drop

    step, put, drop = build()
    return scene(step, lambda: put(3), drop, lambda: put(4))


@case("absence")
def a_parameter_becomes_none():
    layer = nn.Linear(2, 2)
    x = eager.ones(1, 2)

    def drop():
        layer.bias = None

    def back():
        layer.bias = nn.Parameter(eager.ones(2))

    return scene(lambda x: layer(x), drop, back, args=(x,))


@case("absence")
def a_submodule_appears():
    class Model(nn.Module):
        def forward(self, x):
            if hasattr(self, "head"):
                return self.head(x)
            return x

    model = Model()

    def add():
        model.head = nn.ReLU()

    def swap():
        model.head = nn.Tanh()

    def drop():
        del model.head

    return scene(lambda x: model(x - 2), add, swap, drop)


@case("absence")
def a_gradient_is_there_or_not():
    w = eager.ones(2, requires_grad=True)

    def step(x):
        had = w.grad is None
        (w * 2).sum().backward()
        return had

    def drop():
        w.grad = None

    def zero():
        w.grad = eager.zeros(2)

    return scene(step, nothing, drop, zero, observe=lambda: w.grad)


@case("absence")
def a_tensor_gets_an_attribute():
    x = eager.ones(2)

    def step(x):
        return x * getattr(x, "scale", 1), hasattr(x, "mask")

    return scene(
        step, lambda: setattr(x, "scale", 3), lambda: setattr(x, "mask", None),
        lambda: delattr(x, "scale"), args=(x,),
    )


@case("absence")
def a_member_of_an_enumeration_of_names():
    space = types.SimpleNamespace(a=1)

    def step(x):
        return sorted(vars(space)), getattr(space, "b", 0), space == types.SimpleNamespace(a=1)

    return scene(step, lambda: setattr(space, "b", 2), lambda: delattr(space, "a"))


@case("absence")
def missing_keys_of_a_chain():
    a, b = {}, {"k": 2}
    chain = collections.ChainMap(a, b)

    def step(x):
        return x * chain["k"], len(chain), "z" in chain

    return scene(
        step, lambda: a.update(k=5), lambda: b.update(z=1), lambda: chain.maps.append({"q": 1})
    )


@case("absence")
def an_exception_class_gets_a_base():
    class Base(Exception):
        pass

    class Other(Exception):
        pass

    class Stop(Base):
        pass

    def step(x):
        try:
            raise Stop("s")
        except Other:
            return "other"
        except Exception:
            return "exception"

    def change():
        Stop.__bases__ = (Other,)

    return scene(step, change)


@case("absence")
def a_context_manager_gets_an_exit():
    class Context:
        def __enter__(self):
            return 1

    def step(x):
        try:
            with Context() as n:
                return x * n
        except TypeError as error:
            return "exit" in str(error)

    def change():
        Context.__exit__ = lambda self, *a: False

    return scene(step, change)


@case("absence")
def a_format_and_an_index_appear():
    class Number:
        pass

    number = Number()

    def step(x):
        try:
            return x[number], f"{number:>5}"
        except TypeError:
            return "no index"

    def change():
        Number.__index__ = lambda self: 1
        Number.__format__ = lambda self, spec: spec

    return scene(step, change, lambda: setattr(Number, "__index__", lambda self: 2))


@case("absence")
def a_hash_is_taken_away():
    class Key:
        pass

    key = Key()
    table = {key: 3}

    def step(x):
        try:
            return x * table[key]
        except (TypeError, KeyError) as error:
            return type(error).__name__

    def change():
        Key.__hash__ = None

    def other():
        Key.__hash__ = lambda self: 1

    return scene(step, change, other)


@case("absence")
def an_empty_slot_of_a_base():
    class Base:
        __slots__ = ("a",)

    class Derived(Base):
        __slots__ = ("__dict__", "b")

    d = Derived()

    def step(x):
        d.count = getattr(d, "count", 0) + 1
        return getattr(d, "a", 10), getattr(d, "b", 20), d.count

    return scene(step, lambda: setattr(d, "a", 1), lambda: setattr(d, "b", 2), observe=lambda: d)


@case("absence")
def keyword_only_and_positional_only_names():
    def inner(a, /, b, *rest, c=3, **more):
        return a, b, rest, c, more

    def step(x, **kwargs):
        return inner(1, **kwargs)

    x = eager.ones(1)
    return rows(
        lambda x, k: step(x, **k),
        (x, {"b": 2}),
        (x, {"b": 2, "a": 5}),
        (x, {"b": 2, "c": 5, "d": 6}),
        (x, {"c": 2}),
    )


@case("absence")
def a_guarded_length_of_an_unsized_object():
    """What stood at a place is replaced by something on which the guard itself stumbles."""

    class Odd:
        def __len__(self):
            raise RuntimeError("len of odd")

        def __eq__(self, other):
            raise RuntimeError("eq of odd")

        __hash__ = None

        def __bool__(self):
            raise RuntimeError("bool of odd")

    class State:
        items = None
        n = 1

    state = State()
    state.items = [1, 2]

    def step(x):
        return x * (len(state.items) if type(state.items) is list else 5), type(state.n).__name__

    return scene(
        step, lambda: setattr(state, "items", Odd()), lambda: setattr(state, "n", Odd())
    )


@case("absence")
def the_eq_of_a_user_runs_in_no_guard():
    log = []

    class Tag:
        def __eq__(self, other):
            log.append("eq")
            return True

        def __hash__(self):
            log.append("hash")
            return 1

    class State:
        n = 1

    state, tag = State(), Tag()

    def step(x):
        return x * (state.n if type(state.n) is int else 7)

    return scene(step, lambda: setattr(state, "n", tag), nothing, observe=lambda: list(log))


@case("absence")
def the_hash_of_a_key_runs_once_per_look():
    log = []

    class Key:
        def __eq__(self, other):
            log.append("eq")
            return self is other

        def __hash__(self):
            log.append("hash")
            return 1

    key, table = Key(), {}

    def step(x):
        return x * table.get(key, 2)

    return scene(step, nothing, lambda: table.update({key: 5}), observe=lambda: list(log))


@case("absence")
def unbound_local_after_a_branch():
    def step(x, flag):
        if flag:
            y = 1
        try:
            return x * y
        except UnboundLocalError as error:
            return str(error)

    x = eager.ones(1)
    return rows(step, (x, True), (x, False), (x, 1))


@case("absence")
def the_module_disappears():
    import sys

    m = module("scale = 3\n")
    name = m.__name__

    def step(x):
        return x * (sys.modules[name].scale if name in sys.modules else 1)

    return Program(
        step,
        [Call((eager.ones(1),)), Call((eager.ones(1),), {}, lambda: sys.modules.pop(name))],
    )
