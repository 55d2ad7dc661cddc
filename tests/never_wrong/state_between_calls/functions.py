"""What belongs to a function: defaults, attributes, cells, keywords of a partial."""

import functools
import itertools
import operator
import types

import eager
from jitcap import graph_break
from tests.never_wrong.harness import case
from tests.never_wrong.scene import module, nothing, rows, scene


@case("functions")
def defaults_are_shared_not_copied():
    def step(x):
        def inner(a=[]):  # noqa: B006
            a.append(1)
            return a

        inner()
        return inner, inner.__defaults__[0], inner()

    return scene(step, nothing)


@case("functions")
def the_dictionary_of_a_function_is_shared():
    def helper():
        return vars(helper)

    helper.seen = [1]

    def step(x):
        helper.seen.append(2)
        helper.__dict__["n"] = len(helper.seen)
        return helper.__dict__ is vars(helper), helper(), helper

    return scene(step, nothing, observe=lambda: vars(helper))


@case("functions")
def the_keywords_of_a_partial_are_changed():
    def helper(x, scale=1, shift=0):
        return x * scale + shift

    part = functools.partial(helper, scale=2)

    def change():
        part.keywords["scale"] = 5

    return scene(
        lambda x: part(x),
        change,
        lambda: part.keywords.update(shift=1),
        lambda: part.keywords.clear(),
    )


@case("functions")
def the_keywords_of_a_partial_are_changed_inside():
    part = functools.partial(lambda x, n=0: x * n, n=1)

    def step(x):
        part.keywords["n"] += 1
        return part(x), part.keywords

    return scene(step, nothing, observe=lambda: part.keywords)


@case("functions")
def a_partial_of_a_partial_is_returned():
    def helper(*args, **kwargs):
        return args, kwargs

    part = functools.partial(helper, 1, a=[2])

    def step(x):
        new = functools.partial(part, x, b=3)
        return new, new.func is helper, new(), part.keywords["a"] is new.keywords["a"]

    return scene(step, nothing)


@case("functions")
def a_partial_that_has_a_dictionary_is_not_joined():
    """Not even by who has only asked for it."""

    def helper(*args, **kwargs):
        return args, kwargs

    part = functools.partial(helper, 1, a=2)

    def step(x):
        new = functools.partial(part, x, b=3)
        return new.func is part, new.args, new.keywords

    return scene(step, lambda: vars(part), nothing)


@case("functions")
def a_partial_with_attributes():
    part = functools.partial(lambda x: x * part.scale)
    part.scale = 2
    return scene(lambda x: part(x), lambda: setattr(part, "scale", 3))


@case("functions")
def a_subclass_of_partial():
    class Loud(functools.partial):
        def __call__(self, *args):
            return "loud", super().__call__(*args)

    part = Loud(lambda x, n: x * n, n=2)
    return scene(lambda x: part(x), lambda: part.keywords.update(n=3))


@case("functions", one_graph=True)
def partialmethod():
    class Layer:
        def run(self, n, x):
            return x * n * self.scale

        double = functools.partialmethod(run, 2)
        scale = 1

    layer = Layer()
    return scene(lambda x: layer.double(x), lambda: setattr(layer, "scale", 3))


@case("functions")
def wrapped_is_followed_or_replaced():
    def inner(x):
        return x * 2

    @functools.wraps(inner)
    def outer(x):
        return outer.__wrapped__(x) + 1

    return scene(
        lambda x: outer(x),
        lambda: setattr(outer, "__wrapped__", lambda x: x * 5),
        lambda: delattr(outer, "__wrapped__"),
    )


@case("functions")
def a_function_is_made_with_new_defaults():
    def helper(x, n=1):
        return x * n

    def step(x):
        clone = types.FunctionType(
            helper.__code__, helper.__globals__, "clone", (5,), helper.__closure__
        )
        return clone(x), clone.__name__, clone.__defaults__, helper.__defaults__

    def change():
        helper.__code__ = (lambda x, n=1: x + n).__code__

    return scene(step, nothing, change)


@case("functions")
def the_defaults_are_set_inside():
    def helper(x, n=1):
        return x * n

    def step(x):
        helper.__defaults__ = (helper.__defaults__[0] + 1,)
        return helper(x)

    return scene(step, nothing, observe=lambda: helper.__defaults__)


@case("functions")
def a_closure_is_returned_and_grows():
    def step(x):
        total = 0

        def add(n):
            nonlocal total
            total += n
            return total

        add(2)
        return add, add.__closure__[0].cell_contents, add

    program = scene(step, nothing)
    return program


@case("functions")
def two_closures_over_one_variable():
    def step(x):
        n = 1

        def up():
            nonlocal n
            n += 1

        def read():
            return n

        up()
        return up, read, read() * x

    return scene(step, nothing)


@case("functions")
def a_jitted_function_from_inside_is_used_outside():
    made = []

    def step(x):
        y = x * 2
        made.append(lambda z: z + y)
        return made[-1](x)

    def use():
        made.append(made[0](eager.ones(3)))

    return scene(step, nothing, use, nothing, observe=lambda: made[-1])


@case("functions")
def annotations_of_a_function():
    def helper(x: int) -> str:
        return ""

    def step(x):
        helper.__annotations__["y"] = float
        return dict(helper.__annotations__)

    return scene(step, lambda: helper.__annotations__.update(x=str))


@case("functions")
def a_bound_method_is_kept():
    class Counter:
        n = 0

        def up(self):
            self.n += 1
            return self.n

    a, b = Counter(), Counter()
    held = {"up": a.up}

    def step(x):
        return x * held["up"](), held["up"].__self__ is a, held["up"] == a.up, held["up"] is a.up

    return scene(step, lambda: held.update(up=b.up), observe=lambda: (a, b))


@case("functions")
def a_method_of_a_builtin_is_kept():
    log, other = [], []
    held = {"put": log.append}

    def step(x):
        held["put"](len(log))
        return x * len(log), held["put"].__self__ is log

    return scene(step, nothing, lambda: held.update(put=other.append), observe=lambda: (log, other))


@case("functions")
def getters_of_operator_are_kept():
    held = {
        "get": operator.itemgetter(0),
        "attr": operator.attrgetter("shape"),
        "call": operator.methodcaller("sum"),
    }

    def step(x):
        return held["get"]([5, 6]), held["attr"](x), held["call"](x)

    return scene(
        step,
        lambda: held.update(get=operator.itemgetter(1)),
        lambda: held.update(call=operator.methodcaller("mean")),
    )


@case("functions")
def a_lambda_in_a_default_of_a_default():
    def step(x, f=lambda y, s=[2]: y * s[0]):  # noqa: B006
        return f(x)

    return scene(step, lambda: step.__defaults__[0].__defaults__[0].__setitem__(0, 7))


@case("functions")
def two_functions_of_one_code():
    def make(n):
        def inner(x):
            return x * n

        return inner

    def step(x, f):
        return f(x)

    x, two, three = eager.ones(1), make(2), make(3)
    return rows(step, (x, two), (x, three), (x, make([])), (x, two))


@case("functions")
def two_functions_of_one_code_and_other_defaults():
    made = []
    for n in (2, 3):

        def inner(x, n=n, *, m=n):
            return x * n + m

        inner.tag = n
        made.append(inner)

    def step(x, f):
        return f(x), f.tag

    x = eager.ones(1)
    return rows(step, (x, made[0]), (x, made[1]), (x, made[0]))


@case("functions")
def a_recursive_function_is_replaced_half_way():
    m = module("def f(n): return 1 if n == 0 else n * f(n - 1)\ndef step(x): return x * f(4)\n")
    g = m.f
    return scene(m.step, lambda: setattr(m, "f", lambda n: 100), lambda: setattr(m, "f", g))


@case("functions")
def keyword_defaults_are_written_inside():
    def helper(x, *, n=1):
        return x * n

    def step(x):
        helper.__kwdefaults__["n"] += 1
        return helper(x)

    return scene(step, nothing, nothing, observe=lambda: helper.__kwdefaults__)


@case("functions")
def a_list_in_the_defaults_is_written_from_outside_the_function():
    def helper(x, seen=[]):  # noqa: B006
        return x * len(seen)

    def step(x):
        helper.__defaults__[0].append(1)
        return helper(x)

    return scene(step, nothing, nothing, observe=lambda: helper.__defaults__)


@case("functions")
def the_cells_of_a_closure_are_written_inside():
    def make():
        n = 1

        def helper(x):
            return x * n

        return helper

    helper = make()

    def step(x):
        helper.__closure__[0].cell_contents += 1
        return helper(x)

    return scene(step, nothing, nothing, observe=lambda: helper.__closure__[0].cell_contents)


@case("functions")
def globals_are_written_through_a_function():
    m = module("N = 1\ndef helper(x): return x * N\n")
    helper = m.helper

    def step(x):
        helper.__globals__["N"] += 1
        return helper(x)

    return scene(step, nothing, nothing, observe=lambda: m.N)


@case("functions")
def annotations_of_a_class_are_written_inside():
    class Config:
        a: int

    def step(x):
        Config.__annotations__["b"] = len(Config.__annotations__)
        return dict(Config.__annotations__), x

    return scene(step, nothing, nothing, observe=lambda: Config.__annotations__)


@case("functions")
def the_function_of_a_method_has_attributes():
    class Layer:
        def run(self, x):
            return x * self.run.__func__.scale

        run.scale = 2

    layer = Layer()
    return scene(lambda x: (layer.run(x), layer.run.scale), lambda: setattr(Layer.run, "scale", 3))


@case("functions")
def the_doc_of_a_class_and_a_method():
    class Layer:
        """one"""

        def run(self):
            """two"""

    def step(x):
        return Layer.__doc__, Layer().run.__doc__, Layer.run.__name__, Layer().__doc__

    def change():
        Layer.__doc__ = "three"
        Layer.run.__doc__ = "four"

    return scene(step, change)


@case("functions")
def the_globals_of_a_function_that_is_made():
    m = module("N = 1\ndef step(x):\n    f = lambda: N\n    return x, f.__globals__['N'], f()\n")
    return scene(m.step, lambda: setattr(m, "N", 2))


def held(function):
    """The function as it comes back from what holds it."""
    getter = property(function)
    both = types.SimpleNamespace(f=function), types.MethodType(function, 1)
    table = {}
    table.update(f=function)
    return {
        "property": getter.fget is function,
        "setter": property().setter(function).fset is function,
        "static": staticmethod(function).__func__ is function,
        "class": classmethod(function).__func__ is function,
        "namespace": both[0].f is function,
        "method": both[1].__func__ is function,
        "owner": types.MethodType(nothing, function).__self__ is function,
        "cell": types.CellType(function).cell_contents is function,
        "partial": functools.partial(function).func is function,
        "argument": functools.partial(nothing, function).args[0] is function,
        "slice": slice(function).stop is function,
        "repeat": next(itertools.repeat(function)) is function,
        "filler": next(itertools.zip_longest([], [1], fillvalue=function))[0] is function,
        "default": min([], default=function) is function,
        "update": table["f"] is function,
    }


@case("functions")
def what_holds_a_callable_gives_it_back():
    layer = eager.nn.Linear(1, 1)

    def step(x):
        def own():
            return x

        return x, held(own), held(nothing), held(layer)

    return scene(step, nothing)


@case("functions")
def the_parts_of_a_class_are_its_methods():
    def step(x):
        class Config:
            def read(self):
                return 1

            now, again, alone = property(read), staticmethod(read), classmethod(read)

        parts = vars(Config)
        return (
            x,
            Config.now.fget is Config.read,
            Config.again is Config.read,
            Config.alone.__func__ is Config.read,
            parts["now"].fget is parts["read"],
            Config().now,
        )

    return scene(step, nothing)


@case("functions")
def a_callable_as_text():
    layer = eager.nn.Linear(1, 1)

    def step(x):
        def own():
            return x

        texts = [[f.format(v) == str(v) for v in (own, nothing, layer)] for f in ("{}", "{!r}")]
        return x, texts, "{!r} {}".format(nothing, layer)  # noqa: UP032

    return scene(step, nothing)


@case("functions")
def a_partial_is_called_by_native_code():
    def scaled(by, x):
        return x * by

    def step(x):
        return [*map(functools.partial(scaled, 2), [x, x])], sorted(
            [3, 1, 2], key=functools.partial(operator.mul, -1)
        )

    return scene(step, nothing)


@case("functions")
def functions_of_a_class_are_themselves_behind_a_split():
    class Thing:
        @staticmethod
        def twice(x):
            return x * 2

        @classmethod
        def thrice(cls, x):
            return x * 3

        def four(self, x):
            return x * 4

    thing, kept = Thing(), []

    def step(x):
        functions = Thing.twice, thing.thrice, Thing.four
        graph_break()
        kept[:] = functions
        same = functions[0] is thing.twice, functions[1] == Thing.thrice, functions[2] is Thing.four
        return same, functions[0](x) + functions[1](x) + functions[2](thing, x)

    def change():
        Thing.twice.__code__ = (lambda x: x * 20).__code__

    return scene(step, change, observe=lambda: [kept[0] is Thing.twice, kept[2] is Thing.four])


@case("functions")
def a_property_made_inside_holds_what_it_was_made_of():
    class Thing:
        def __call__(self, *_):
            return 1

    thing = Thing()

    def step(x):
        def own(*_):
            return x

        found = []
        for function in (own, thing, thing.__call__, nothing):
            made = property(function).setter(function)
            graph_break()
            found.append((made.fget is function, made.fset is function, made.fdel))
        return found

    return scene(step, nothing)


@case("functions")
def a_function_that_shows_what_another_one_has():
    def shown(a: int, *, k=1) -> str:
        return k

    def step(x, later):
        def wrapper(*, k):
            return k

        wrapper.__annotations__ = shown.__annotations__
        wrapper.__kwdefaults__ = shown.__kwdefaults__
        if later:
            graph_break()
        same = wrapper.__annotations__ is shown.__annotations__
        return same, dict(wrapper.__annotations__), wrapper(), wrapper, x

    x = eager.ones(2)
    return rows(step, (x, False), (x, True))
