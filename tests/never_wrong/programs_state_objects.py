"""Functions' own dictionaries, descriptors and classes that change, weak references, finalizers."""

import copy
import functools
import gc
import operator
import pickle
import types
import weakref

import eager
from eager import nn

from .harness import Call, Program, case
from .scene import module, nothing, rows, scene

# ---- what belongs to a function


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
        lambda x: part(x), change, lambda: part.keywords.update(shift=1), lambda: part.keywords.clear()
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


@case("functions")
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
    held = {"get": operator.itemgetter(0), "attr": operator.attrgetter("shape"), "call": operator.methodcaller("sum")}

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
    m = module(
        "def f(n): return 1 if n == 0 else n * f(n - 1)\ndef step(x): return x * f(4)\n"
    )
    g = m.f
    return scene(m.step, lambda: setattr(m, "f", lambda n: 100), lambda: setattr(m, "f", g))


# ---- descriptors


@case("descriptors")
def a_property_of_a_metaclass():
    class Meta(type):
        @property
        def scale(cls):
            return cls.held * 2

    class Layer(metaclass=Meta):
        held = 1

    class Derived(Layer):
        pass

    def step(x):
        return x * Derived.scale, Layer.scale, hasattr(Layer(), "scale")

    return scene(
        step, lambda: setattr(Layer, "held", 3), lambda: setattr(Derived, "held", 4),
        lambda: setattr(Meta, "scale", property(lambda cls: 9)),
    )


@case("descriptors")
def set_name_and_init_subclass():
    log = []

    class Field:
        def __set_name__(self, owner, name):
            self.name = name
            log.append(name)

        def __get__(self, obj, owner=None):
            return self if obj is None else obj.__dict__.get(self.name, 7)

        def __set__(self, obj, value):
            obj.__dict__[self.name] = value + 1

    class Base:
        def __init_subclass__(cls, tag="none", **kwargs):
            super().__init_subclass__(**kwargs)
            cls.tag = tag
            log.append(tag)

    def step(x):
        class Layer(Base, tag="t"):
            field = Field()

        layer = Layer()
        before = layer.field
        layer.field = 1
        return before, layer.field, Layer.tag, Layer.field.name

    return scene(step, nothing, observe=lambda: list(log))


@case("descriptors")
def a_descriptor_becomes_a_data_descriptor():
    class Field:
        def __get__(self, obj, owner=None):
            return 5

    class Layer:
        field = Field()

    layer = Layer()
    layer.__dict__["field"] = 2

    def change():
        Field.__set__ = lambda self, obj, value: None

    return scene(lambda x: x * layer.field, change, lambda: delattr(Field, "__set__"))


@case("descriptors")
def the_state_of_a_descriptor_changes():
    class Field:
        def __init__(self):
            self.scale = 2
            self.reads = 0

        def __get__(self, obj, owner=None):
            self.reads += 1
            return self.scale

    class Layer:
        field = Field()

    layer, field = Layer(), vars(Layer)["field"]
    return scene(
        lambda x: x * layer.field + Layer.field,
        lambda: setattr(field, "scale", 3),
        observe=lambda: field.reads,
    )


@case("descriptors")
def a_classmethod_reads_its_class():
    class Layer:
        scale = 2

        @classmethod
        def run(cls, x):
            return x * cls.scale

        @staticmethod
        def plus(x):
            return x + 1

    class Derived(Layer):
        pass

    def step(x):
        return Derived.run(x), Layer().run(x), Derived.plus(x)

    return scene(
        step,
        lambda: setattr(Derived, "scale", 3),
        lambda: setattr(Layer, "plus", staticmethod(lambda x: x + 9)),
        lambda: setattr(Layer, "run", classmethod(lambda cls, x: cls.__name__)),
    )


@case("descriptors")
def a_property_replaces_itself():
    class Lazy:
        @property
        def value(self):
            type(self).value = 5
            return 1

    def step(x):
        lazy = Lazy()
        return x * lazy.value + lazy.value

    return scene(step, nothing)


@case("descriptors")
def class_getitem():
    class Table:
        scale = 2

        def __class_getitem__(cls, key):
            return cls.scale * key

    def step(x):
        return x * Table[3]

    return scene(
        step,
        lambda: setattr(Table, "scale", 5),
        lambda: setattr(Table, "__class_getitem__", classmethod(lambda cls, key: 0)),
    )


@case("descriptors")
def slots_of_a_base_hidden_by_a_member():
    class Base:
        __slots__ = ("a", "_Base__b")

        def __init__(self):
            self.a = 1
            self.__b = 2

        def both(self):
            return self.a, self.__b

    class Derived(Base):
        __slots__ = ()
        scale = 3

    d = Derived()

    def step(x):
        d.a += 1
        return d.both(), d.scale, hasattr(d, "__dict__")

    return scene(step, lambda: setattr(d, "_Base__b", 7), observe=d.both)


@case("descriptors")
def getattribute_counts_its_calls():
    class Loud:
        def __init__(self):
            self.log = []
            self.n = 2

        def __getattribute__(self, name):
            if name != "log":
                self.log.append(name)
            return object.__getattribute__(self, name)

        def get(self):
            return self.n

    loud = Loud()
    return scene(lambda x: x * loud.n + loud.get(), nothing, observe=lambda: list(loud.log))


@case("descriptors")
def the_lookup_of_special_methods_skips_the_instance():
    class Thing:
        def __len__(self):
            return 2

        def __call__(self, x):
            return x * 2

    thing = Thing()

    def step(x):
        return len(thing), thing(x), bool(thing)

    def change():
        thing.__len__ = lambda: 5
        thing.__call__ = lambda x: x * 5

    return scene(step, change, lambda: setattr(Thing, "__len__", lambda self: 0))


@case("descriptors")
def a_setter_and_a_deleter_with_effects():
    class Box:
        def __init__(self):
            self._n, self.log = 0, []

        @property
        def n(self):
            return self._n

        @n.setter
        def n(self, value):
            self.log.append(value)
            self._n = value * 2

        @n.deleter
        def n(self):
            self.log.append("deleted")

    box = Box()

    def step(x):
        box.n = box.n + 1
        box.n += 1
        del box.n
        return x * box.n

    return scene(step, nothing, lambda: setattr(box, "_n", 10), observe=lambda: box)


# ---- classes


@case("classes")
def a_class_attribute_is_written_inside():
    class Counter:
        n = 0

    def step(x):
        Counter.n += 1
        return x * Counter.n

    return scene(step, nothing, lambda: setattr(Counter, "n", 10), observe=lambda: Counter.n)


@case("classes")
def a_class_attribute_that_is_a_list():
    class Log:
        items = []

    class Other(Log):
        pass

    def step(x):
        Other.items.append(1)
        return x * len(Log().items)

    return scene(step, nothing, lambda: setattr(Other, "items", []), observe=lambda: (Log.items, Other.items))


@case("classes")
def the_class_of_an_instance_is_assigned():
    class A:
        def run(self, x):
            return x * 2

    class B:
        def run(self, x):
            return x * 3

    thing = A()
    return scene(
        lambda x: (thing.run(x), type(thing).__name__, isinstance(thing, B)),
        lambda: setattr(thing, "__class__", B),
    )


@case("classes")
def the_class_is_assigned_inside():
    class A:
        n = 1

    class B:
        n = 2

    thing = A()

    def step(x):
        thing.__class__ = B if type(thing) is A else A
        return x * thing.n

    return scene(step, nothing, observe=lambda: type(thing).__name__)


@case("classes")
def the_bases_of_a_class_are_assigned():
    class One:
        n = 1

        def run(self):
            return "one"

    class Two:
        n = 2

        def run(self):
            return "two"

    class Thing(One):
        pass

    thing = Thing()
    return scene(
        lambda x: (x * thing.n, thing.run(), issubclass(Thing, Two)),
        lambda: setattr(Thing, "__bases__", (Two,)),
    )


@case("classes")
def the_bases_of_a_base_are_assigned():
    class One:
        def run(self):
            return 1

    class Two:
        def run(self):
            return 2

    class Middle(One):
        pass

    class Thing(Middle):
        def run(self):
            return super().run() * 10

    thing = Thing()
    return scene(lambda x: x * thing.run(), lambda: setattr(Middle, "__bases__", (Two,)))


@case("classes")
def a_class_made_with_type():
    made = type("Made", (), {"scale": 2, "run": lambda self, x: x * self.scale})
    thing = made()

    def step(x):
        other = type("Other", (made,), {"scale": 5})
        return thing.run(x), other().run(x), other.__name__, other.__mro__[1] is made

    return scene(step, lambda: setattr(made, "scale", 3))


@case("classes")
def a_class_made_inside_is_returned():
    def step(x):
        class Box:
            n = 1

            def __init__(self, value):
                self.value = value

        return Box(2).value, Box.__qualname__.rpartition(".")[2], Box

    return scene(step, nothing)


@case("classes")
def an_instance_of_a_local_class_escapes():
    def step(x):
        class Box:
            def get(self):
                return 3

        return Box().get() * x, Box()

    return scene(step, nothing)


@case("classes")
def super_with_other_arguments():
    class A:
        n = 1

        def run(self):
            return "A"

    class B(A):
        n = 2

        def run(self):
            return "B" + super().run()

    class C(B):
        n = 3

        def run(self):
            return super(B, self).run(), super(C, C).n, super(A, B).__thisclass__.__name__, super().n

    c = C()
    return scene(lambda x: c.run(), lambda: setattr(A, "n", 9), lambda: setattr(A, "run", lambda self: "X"))


@case("classes")
def super_in_a_comprehension_and_a_closure():
    class A:
        def run(self, n):
            return n * 2

    class B(A):
        def run(self, n):
            parent = super()
            later = lambda v: super(B, self).run(v)
            return parent.run(n), later(n), [super(B, self).run(i) for i in range(2)]

    b = B()
    return scene(lambda x: b.run(3), lambda: setattr(A, "run", lambda self, n: n * 5))


@case("classes")
def the_order_of_resolution_of_a_diamond():
    class Root:
        def run(self):
            return ["root"]

    class Left(Root):
        def run(self):
            return ["left", *super().run()]

    class Right(Root):
        def run(self):
            return ["right", *super().run()]

    class Both(Left, Right):
        def run(self):
            return ["both", *super().run()]

    both = Both()

    def change():
        del Right.run

    return scene(lambda x: both.run(), change, lambda: setattr(Left, "run", lambda self: ["new"]))


@case("classes")
def new_returns_something_else():
    cache = {}

    class Single:
        def __new__(cls, n):
            if n not in cache:
                cache[n] = super().__new__(cls)
                cache[n].n = n
            return cache[n]

        def __init__(self, n):
            self.inits = getattr(self, "inits", 0) + 1

    def step(x):
        return Single(1) is Single(1), Single(1).inits, x * Single(2).n

    return scene(step, nothing, cache.clear, observe=lambda: dict(cache))


@case("classes")
def call_of_a_metaclass_makes_singletons():
    class Meta(type):
        held = {}

        def __call__(cls, *args):
            if cls not in cls.held:
                cls.held[cls] = super().__call__(*args)
            return cls.held[cls]

    class Thing(metaclass=Meta):
        def __init__(self, n):
            self.n = n

    def step(x, n):
        return Thing(n) is Thing(5), x * Thing(9).n

    x = eager.ones(1)
    return rows(step, (x, 1), (x, 2))


@case("classes")
def instancecheck_of_a_metaclass():
    class Meta(type):
        answer = True

        def __instancecheck__(cls, obj):
            return cls.answer

    class Thing(metaclass=Meta):
        pass

    return scene(lambda x: isinstance(3, Thing), lambda: setattr(Meta, "answer", False))


@case("classes")
def the_dictionary_of_an_instance_is_replaced():
    class Box:
        pass

    box = Box()
    box.n = 1

    def step(x):
        box.n += 1
        return x * box.n, sorted(vars(box))

    def replace():
        box.__dict__ = {"n": 10, "m": 1}

    return scene(step, replace, nothing, observe=lambda: box)


@case("classes")
def the_dictionary_is_replaced_inside():
    class Box:
        pass

    box = Box()
    box.n = 1

    def step(x):
        box.__dict__ = {"n": box.n + 1}
        return x * box.n

    return scene(step, nothing, observe=lambda: box)


@case("classes")
def names_of_classes_change():
    class Thing:
        """doc"""

    def step(x):
        return Thing.__name__, Thing.__doc__, Thing.__module__ == __name__, repr(Thing()).count("Thing")

    def change():
        Thing.__name__, Thing.__doc__ = "Other", "changed"

    return scene(step, change)


@case("classes")
def subclasses_are_listed():
    class Base:
        pass

    held = []

    def step(x):
        return [c.__name__ for c in Base.__subclasses__()]

    return scene(step, lambda: held.append(type("New", (Base,), {})))


@case("classes")
def the_dictionary_of_a_class_is_listed():
    class Base:
        a = 1

    def step(x):
        return [k for k in vars(Base) if not k.startswith("_")], "b" in Base.__dict__, "b" in dir(Base)

    return scene(step, lambda: setattr(Base, "b", 2))


@case("classes")
def addition_of_user_classes_returns_notimplemented():
    class A:
        def __init__(self):
            self.log = []

        def __add__(self, other):
            self.log.append("add")
            return NotImplemented

        def __eq__(self, other):
            self.log.append("eq")
            return NotImplemented

        __hash__ = None

    class B:
        def __radd__(self, other):
            return 7

    a, b = A(), B()

    def step(x):
        try:
            return a + b, a == b, a != b, a + 1
        except TypeError as error:
            return str(error), list(a.log)

    return scene(step, nothing, observe=lambda: a.log)


@case("classes")
def order_by_total_ordering():
    @functools.total_ordering
    class Level:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return self.n == other.n

        def __lt__(self, other):
            return self.n < other.n

        __hash__ = None

    a, b = Level(1), Level(2)

    def step(x):
        return a >= b, sorted([b, a])[0].n, max(a, b).n, a != b

    return scene(step, lambda: setattr(a, "n", 5), lambda: setattr(Level, "__lt__", lambda s, o: True))


@case("classes")
def an_abstract_class_is_not_instantiated():
    import abc

    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

    def step(x):
        try:
            Shape()
        except TypeError as error:
            return "abstract" in str(error)
        return x

    return scene(step, nothing)


@case("classes")
def an_object_reduces_itself():
    class Box:
        def __init__(self):
            self.n = 1

        def __reduce_ex__(self, protocol):
            return (list, ((self.n,),))

        def __deepcopy__(self, memo):
            return "copied"

    box = Box()

    def step(x):
        return copy.copy(box), copy.deepcopy([box, box])

    return scene(step, lambda: setattr(box, "n", 5))


# ---- weak references, finalizers, the collector


@case("weak")
def a_weak_reference_dies():
    class Thing:
        n = 3

    held = [Thing()]
    reference = weakref.ref(held[0])

    def step(x):
        thing = reference()
        return x if thing is None else x * thing.n

    return scene(step, held.clear)


@case("weak")
def a_weak_dictionary_loses_its_entry():
    class Thing:
        n = 3

    held = [Thing(), Thing()]
    table = weakref.WeakValueDictionary(a=held[0], b=held[1])

    def step(x):
        return len(table), x * table["b"].n, "a" in table, sorted(table)

    return scene(step, lambda: held.pop(0), lambda: table.update(c=held[0]))


@case("weak")
def a_weak_key_dictionary():
    class Key:
        pass

    key, other = Key(), Key()
    table = weakref.WeakKeyDictionary({key: 2})

    def step(x):
        return x * table.get(key, 1), len(table), other in table

    return scene(step, lambda: table.update({other: 5}), lambda: table.pop(key))


@case("weak")
def a_weak_set():
    class Thing:
        pass

    held = [Thing()]
    things = weakref.WeakSet(held)

    def step(x):
        return x * len(things)

    def add():
        held.append(Thing())
        things.add(held[-1])

    return scene(step, add, held.clear)


@case("weak")
def a_weak_reference_is_made_inside():
    class Thing:
        n = 2

    thing, made = Thing(), []

    def step(x):
        made.append(weakref.ref(thing))
        return x * made[-1]().n, weakref.getweakrefcount(thing)

    return scene(step, nothing, observe=lambda: [r() is thing for r in made])


@case("weak")
def a_weak_reference_to_an_object_made_inside():
    class Thing:
        pass

    def step(x):
        thing = Thing()
        reference = weakref.ref(thing)
        alive = reference() is thing
        del thing
        return alive, reference() is None

    return scene(step, nothing)


@case("weak")
def a_proxy():
    class Thing:
        n = 2

        def run(self, x):
            return x * self.n

    thing = Thing()
    proxy = weakref.proxy(thing)
    return scene(lambda x: (proxy.run(x), proxy.n), lambda: setattr(thing, "n", 3))


@case("weak")
def a_weak_method():
    class Thing:
        n = 2

        def run(self, x):
            return x * self.n

    thing = Thing()
    method = weakref.WeakMethod(thing.run)
    return scene(lambda x: method()(x), lambda: setattr(thing, "n", 3))


@case("weak")
def del_runs_at_each_call():
    log = []

    class Thing:
        def __init__(self, n):
            self.n = n

        def __del__(self):
            log.append(self.n)

    def step(x):
        thing = Thing(1)
        y = x * thing.n
        del thing
        log.append("after")
        return y

    return scene(step, nothing, nothing, observe=lambda: list(log))


@case("weak")
def del_runs_when_the_last_reference_goes():
    log, held = [], []

    class Thing:
        def __del__(self):
            log.append("gone")

    held.append(Thing())

    def step(x):
        held.clear()
        log.append("cleared")
        held.append(Thing())
        return x + 1

    return scene(step, nothing, observe=lambda: list(log))


@case("weak")
def a_finalizer_is_registered_inside():
    log = []

    class Thing:
        pass

    def step(x):
        thing = Thing()
        weakref.finalize(thing, log.append, "gone")
        del thing
        return x + 1, len(log)

    return scene(step, nothing, observe=lambda: list(log))


@case("weak")
def a_generator_is_closed_when_it_goes():
    log = []

    def numbers():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    def step(x):
        for n in numbers():
            break
        log.append("after")
        return x * n

    return scene(step, nothing, observe=lambda: list(log))


@case("weak")
def the_collector_is_asked():
    def step(x):
        return x + 1, gc.isenabled()

    return Program(
        step,
        [Call((eager.ones(1),)), Call((eager.ones(1),), {}, gc.disable), Call((eager.ones(1),), {}, gc.enable)],
        close=gc.enable,
    )


@case("weak")
def the_arguments_are_not_kept_alive():
    class Thing:
        def __init__(self):
            self.x = eager.ones(2)

    dead = []

    def step(thing):
        return thing.x * 2

    def call(_):
        thing = Thing()
        weakref.finalize(thing, dead.append, 1)
        result = inner(thing)
        del thing
        return result

    inner = step
    return scene(call, nothing, observe=lambda: list(dead))


@case("weak")
def a_tensor_that_is_weakly_held():
    held = [eager.ones(2)]
    reference = weakref.ref(held[0])

    def step(x):
        w = reference()
        return x if w is None else x + w

    return scene(step, lambda: held[0].add_(1), held.clear, args=(eager.ones(2),))


# ---- copies and pickles


@case("copies")
def a_pickle_of_a_model_inside():
    model = nn.Linear(2, 2)

    def step(x):
        other = pickle.loads(pickle.dumps(model.state_dict()))
        return sorted(other), other["bias"] + 1

    return scene(step, lambda: model.bias.data.add_(1))


@case("copies")
def a_model_is_copied_inside():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def step(x):
        other = copy.deepcopy(model)
        with eager.no_grad():
            other[0].weight.add_(1)
        return other(x).detach(), model(x).detach(), other[0] is model[0]

    return scene(step, lambda: model[0].weight.data.mul_(2), args=(eager.ones(1, 2),))


@case("copies")
def a_state_is_loaded_between_calls():
    model = nn.Linear(2, 2)
    saved = copy.deepcopy(model.state_dict())

    def step(x):
        with eager.no_grad():
            model.weight.add_(x)
        return model(x).detach()

    return scene(step, nothing, lambda: model.load_state_dict(saved), args=(eager.ones(1, 2),))


@case("copies")
def a_state_is_loaded_inside():
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)

    def step(x):
        model.load_state_dict(other.state_dict())
        return model(x).detach()

    return scene(step, lambda: other.weight.data.add_(1), args=(eager.ones(1, 2),))


@case("copies")
def a_state_is_assigned():
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)

    def step(x):
        return model(x).detach()

    def assign():
        model.load_state_dict(other.state_dict(), assign=True)

    return scene(
        step, assign, lambda: other.weight.data.add_(1), args=(eager.ones(1, 2),)
    )


@case("copies")
def copies_of_tensors_keep_their_marks():
    x = eager.ones(2, requires_grad=True)
    x.tag = [1]

    def step(x):
        return copy.copy(x), copy.deepcopy(x), copy.deepcopy([x, x]), x.detach().clone()

    return rows(step, (x,), (x,))
