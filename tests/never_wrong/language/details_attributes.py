"""Attributes of tensors and of builtin objects, special methods and descriptors, in detail."""

import collections
import functools
import operator

import eager
from tests.never_wrong.harness import Program, after, case, over, vector


def tagged():
    x = vector()
    x.tag = 3
    return x


@case("tensors")
def an_attribute_of_a_tensor_is_deleted():
    def step(x):
        tag = x.tag
        del x.tag
        return x * tag

    return Program(step, [(tagged(),), (tagged(),)])


@case("tensors")
def an_unread_attribute_of_a_tensor_is_deleted():
    def step(x):
        try:
            del x.tag
        except AttributeError:
            return x * 100
        return x

    return Program(step, [(tagged(),), (vector(),)])


@case("tensors")
def the_dictionary_of_a_tensor():
    def step(x):
        object.__setattr__(x, "other", 2)
        return x * x.__dict__.get("tag", 7), vars(x)["other"], x.other

    return Program(step, [(tagged(),), (vector(),)])


class Scaled(eager.nn.Parameter):
    log = []

    @property
    def scale(self):
        return self.kept

    @scale.setter
    def scale(self, value):
        Scaled.log.append(value)
        self.kept = value


class Loud(eager.nn.Parameter):
    log = []

    def __setattr__(self, name, value):
        Loud.log.append(name)
        super().__setattr__(name, value)


@case("tensors")
def a_class_of_tensors_sets_attributes_its_way():
    Scaled.log.clear()
    Loud.log.clear()
    scaled, loud = Scaled(vector()), Loud(vector())

    def step(x, n):
        scaled.scale = n
        loud.tag = n
        return x * scaled.scale, loud.tag

    return over(step, [2, 3], lambda: (Scaled.log, Loud.log))


class Manager:
    def __enter__(self):
        return 2

    def __exit__(self, *error):
        return False


class Proxy:
    def __getattr__(self, name):
        return lambda *_: 4


@case("contexts")
def the_class_has_the_methods_of_with():
    def step(manager, x):
        try:
            with manager as value:
                return x * value
        except TypeError as error:
            return x, str(error)

    odd = Manager()
    odd.__enter__ = lambda: 5
    return Program(step, [(m, vector()) for m in (odd, Proxy(), Manager(), 3)])


class Empty(int):
    def __len__(self):
        return 0


@case("protocols")
def a_number_that_has_a_length_is_true():
    def step(x, n):
        return x * 2 if Empty(n) else x

    return over(step, [3, 0])


class Fixed(property):
    def __get__(self, obj, cls=None):
        return Fixed.of

    def __set__(self, obj, value):
        obj.__dict__["set"] = value * 2

    of = 5


class Kept(functools.cached_property):
    def __get__(self, obj, cls=None):
        return 7


class Bound(staticmethod):
    def __get__(self, obj, cls=None):
        return lambda: 6


class Described:
    a = Fixed(lambda self: 1, lambda self, value: None)
    b = Bound(lambda: 2)
    c = Kept(lambda self: 3)
    size = len


@case("descriptors")
def descriptors_are_derived_from_builtin_ones():
    def step(thing, x):
        thing.a = 4
        return x * thing.a * thing.b() * thing.c * Described.b(), thing.size([1, 2, 3])

    def again():
        Fixed.of = 8

    def close():
        Fixed.of = 5

    calls = [(Described(), vector()), after(again, Described(), vector())]
    return Program(step, calls, close=close)


@case("containers")
def a_default_factory_is_set():
    def step(table, x):
        table.default_factory = list
        table["a"].append(1)
        return x, table.default_factory, table["b"]

    return Program(step, [(collections.defaultdict(int), vector()) for _ in range(2)])


@case("functions")
def a_partial_gets_an_attribute():
    def step(fn, x):
        fn.tag = fn(x)
        return x * 2, vars(fn)

    return Program(step, [(functools.partial(operator.mul, 3), vector()) for _ in range(2)])


@case("functions")
def a_partial_of_a_partial_with_attributes():
    def step(fn, x):
        return fn(x)

    inner = functools.partial(operator.mul, 3)
    inner.tag = 1  # so that it stays one of its own
    return Program(step, [(functools.partial(inner), vector()) for _ in range(2)])


@case("text")
def text_of_a_list_that_holds_itself():
    def step(rows, x):
        return str(rows[0]), repr(rows), x * 2

    rows = [0, 2.5]
    rows[0] = rows
    return Program(step, [(rows, vector()) for _ in range(2)])


class Source:
    of = 1

    def __iter__(self):
        return iter([Source.of])


@case("containers")
def a_part_of_a_list_is_replaced():
    def step(values, others, x):
        values[0:1] = others
        values[-1:] = Source()
        return x, values

    def again():
        Source.of = 2

    def close():
        Source.of = 1

    calls = [([1, 2], [3, x], vector()) for x in (4, vector())]
    return Program(step, [*calls, after(again, [1, 2], (5,), vector())], close=close)


class Sevens(functools.partial):
    def __call__(self, *args):
        return 7


@case("functions")
def a_partial_calls_its_way():
    def step(fn, x):
        try:
            return x * fn(3), operator.itemgetter(0)([fn(2)]), operator.itemgetter(0)()
        except TypeError as error:
            return x, str(error)

    return Program(step, [(Sevens(max, 1), vector()), (functools.partial(max, 1), vector())])
