"""NumPy's arrays: written, shared, replaced."""

import numpy as np

import eager
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, rows, scene


@case("arrays")
def an_array_is_written_between_calls():
    scale = np.array([1.0, 2.0, 3.0], dtype=np.float32)

    def step(x):
        return x * eager.from_numpy(scale), float(scale[0])

    return scene(step, lambda: scale.__imul__(2), lambda: scale.__setitem__(0, 9))


@case("arrays")
def a_tensor_of_an_array_is_asked_of_another():
    offsets = {"a": np.array([0, 4, 9])}

    def step(x):
        return x.new_tensor(offsets["a"]) + x, x.long().new_tensor(data=offsets["a"])

    return scene(
        step,
        lambda: offsets["a"].__iadd__(1),
        lambda: offsets.update(a=np.array([1.5, 2.5, 3.5])),
        lambda: offsets.update(a=[1, 2, 3]),
    )


@case("arrays")
def an_array_shares_memory_with_a_tensor():
    scale = np.ones(3, dtype=np.float32)
    t = eager.from_numpy(scale)

    def step(x):
        t.add_(1)
        return x * t, float(scale[0])

    return scene(step, lambda: scale.__setitem__(0, 9), observe=lambda: scale)


@case("arrays")
def an_array_is_written_inside():
    total = np.zeros(2)

    def step(x):
        total[0] += 1
        total.__iadd__(1)
        return x * float(total.sum())

    return scene(step, nothing, observe=lambda: total)


@case("arrays")
def an_array_becomes_another():
    state = {"a": np.arange(3)}

    def step(x):
        a = state["a"]
        return a.dtype.name, a.shape, a.sum(), a.tolist(), x

    return scene(
        step,
        lambda: state.update(a=np.arange(3.0)),
        lambda: state.update(a=np.array(5)),
        lambda: (
            state.update(a=np.array(["s", None], dtype=object)) or state.update(a=np.ones((2, 2)))
        ),
        lambda: state.update(a=np.ones((0, 2))),
    )


@case("arrays")
def an_array_in_place_of_a_list():
    def step(x, values):
        return len(values), values[0] * 2, x * float(values[1])

    x = eager.ones(1)
    return rows(step, (x, [1, 2]), (x, np.array([1, 2])), (x, (1, 2)), (x, np.array([1.5, 2])))


@case("arrays")
def a_scalar_of_numpy_in_place_of_a_number():
    def step(x, n):
        return n * 3, type(n * 3).__name__, n == 2, x + n

    x = eager.tensor([1, 2])
    return rows(
        step, (x, 2), (x, np.int64(2)), (x, np.int8(2)), (x, np.uint8(200)), (x, np.array(2))
    )


@case("arrays")
def a_view_of_an_array():
    whole = np.arange(4.0)
    part = whole[1:3]

    def step(x):
        whole[1] = 10
        return x * float(part[0]), part.base is whole

    return scene(step, lambda: part.__setitem__(1, 7), observe=lambda: (whole, part))


@case("arrays")
def an_array_of_the_graph():
    def step(x):
        a = x.detach().numpy()
        b = a * 2
        a[0] = 9
        return x, eager.from_numpy(b), b

    return scene(step, nothing)


@case("arrays")
def a_subclass_of_arrays():
    class Loud(np.ndarray):
        def __getitem__(self, key):
            return "loud"

    a = np.arange(3).view(Loud)

    def step(x):
        return a[0], x, type(a).__name__

    return scene(step, nothing)


@case("arrays")
def ufuncs_and_their_methods():
    a = np.arange(1, 4)

    def step(x):
        return np.add.reduce(a), np.maximum(a, 2).tolist(), np.multiply.outer(a, a)[1, 2], x

    return scene(step, lambda: a.__setitem__(0, 50))


@case("arrays")
def tolist_and_item_of_a_tensor():
    def step(x):
        return x.tolist(), x.sum().item(), float(x[0]), int(x[1]), [v.item() for v in x], bool(x[0])

    return rows(step, (eager.tensor([1.0, 2.0]),), (eager.tensor([0.0, 7.5]),))


@case("arrays", one_graph=True)
def numbers_that_are_whole():
    def step(x, n):
        found = x.sum().item().is_integer(), n.is_integer(), (n / 2).is_integer()
        return x * n, found, not found[1]

    numbers = 2.0, 2.5, -0.0, float("inf"), float("nan"), -1e300, 3.0
    return rows(step, *[(eager.tensor([y, 1.0]), n) for y in (1.0, 0.5) for n in numbers])


@case("arrays")
def functions_of_numpy_give_tensors():
    def step(x):
        y = np.exp(x * 2)
        y.add_(1)
        z = np.reshape(x, (1, -1))
        z[0, 0] = 5
        return y, type(y) is eager.Tensor, z, x * 1, np.argmax(x)

    return scene(step, nothing)


@case("arrays")
def a_function_is_called_for_each_element():
    seen = []

    def step(x):
        y = x * 2
        y.apply_(lambda v: seen.append(v) or v + 1)
        x.map_(y, lambda a, b: a * b)
        return y * 2, x + 1, y.is_set_to(x), x.is_set_to(x[:])

    return scene(step, nothing, observe=lambda: seen)


@case("arrays")
def a_tensor_of_an_array_made_inside_is_written():
    def step(x):
        made = np.arange(3.0, dtype=np.float32)
        shared = eager.from_numpy(made)
        shared += 1
        again = eager.as_tensor(made) * x
        return again, float(made.sum()), made.tolist(), len(made), x + eager.tensor(made)

    return scene(step, nothing)


@case("arrays")
def a_part_of_an_array_made_inside_is_written_by_a_tensor():
    def step(x):
        made = np.zeros((2, 3), dtype=np.float32)
        row = eager.from_numpy(made[1])
        row.copy_(x)
        total = x * 0
        for values in made:
            total = total + eager.from_numpy(values)
        return total

    return scene(step, nothing)


@case("arrays")
def an_array_made_inside_is_written_after_a_tensor_used_it():
    def step(x):
        made = np.ones(3, dtype=np.float32)
        shared, copied = eager.from_numpy(made), eager.asarray(made, copy=True)
        first = x + shared, x + copied, eager.stack([x, shared]), eager.where(shared > 0, x, 0)
        made[:] = -1
        np.multiply(made, 2, out=made)
        return *first, x + shared, x + copied

    return scene(step, nothing)


@case("arrays")
def an_index_made_inside_is_written_after_its_use():
    def step(x):
        places = np.array([0, 2])
        y = x.clone()
        y[places] = 7
        places[0] = 1
        return y, x[places]

    return scene(step, nothing)


@case("arrays")
def a_buffer_made_inside_is_filled_again_and_again():
    def step(x):
        buffer = np.zeros(3, dtype=np.float32)
        for i in range(3):
            buffer[i] = i + 1
            x = x + eager.from_numpy(buffer)
        return x

    return scene(step, nothing)


@case("arrays")
def the_array_of_a_constant_is_written():
    def step(x):
        constant = eager.tensor([1.0, 2.0, 3.0])
        y = x + constant
        array = constant.numpy()
        array[0] = 9
        return y, x + constant

    return scene(step, nothing)


@case("arrays")
def an_array_made_inside_is_returned():
    """Another one at each call, which is written to."""

    def step(x):
        made = np.arange(6).reshape(2, 3)
        return x + 1, made, [made, made.T[0]], np.zeros((0, 2)), np.array(3.5)

    def again(x):
        _, made, parts, *_ = out = step(x)
        before = made.tolist()
        made[0, 0] = 50
        parts[1][1] = 60
        return before, made.tolist(), [part.tolist() for part in parts], out[3].shape

    return scene(again, nothing)


@case("arrays")
def an_array_made_inside_is_kept():
    kept = []

    def step(x):
        made = np.arange(3)
        kept.append((made, made[1:]))
        return x[made] * 2

    def change():
        kept[-1][0][1] = 9

    return scene(step, change, change, observe=lambda: kept)


@case("arrays")
def what_shares_memory_is_returned_together():
    kept = []

    def step(x):
        made = np.arange(3.0)
        shared, unused = eager.from_numpy(made), eager.from_numpy(made)
        constant = eager.tensor([1, 2, 3])
        kept[:] = [made, shared, unused, constant, constant.numpy()]
        return x + shared

    def change():
        kept[0][0] = 5
        kept[2][1] = 6
        kept[4][2] = 7

    return scene(step, change, change, observe=lambda: kept)


@case("arrays")
def an_array_lives_over_a_split():
    def step(x):
        order = np.arange(3)
        part = order[1:]
        y = x[part] * 2
        if float(y.sum()) > 0:
            order[0] = 2
            return y, x[order], part.tolist()
        part[0] = 0
        return y, x[order], part.tolist()

    return scene(step, nothing)
