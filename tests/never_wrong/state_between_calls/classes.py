"""Classes that change: their attributes, bases, metaclasses, instances."""

import collections.abc
import copy
import functools

import eager
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, rows, scene


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

    return scene(
        step, nothing, lambda: setattr(Other, "items", []), observe=lambda: (Log.items, Other.items)
    )


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
            return (
                super(B, self).run(),
                super(C, C).n,
                super(A, B).__thisclass__.__name__,
                super().n,
            )

    c = C()
    return scene(
        lambda x: c.run(), lambda: setattr(A, "n", 9), lambda: setattr(A, "run", lambda self: "X")
    )


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
        return (
            Thing.__name__,
            Thing.__doc__,
            Thing.__module__ == __name__,
            repr(Thing()).count("Thing"),
        )

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
        return (
            [k for k in vars(Base) if not k.startswith("_")],
            "b" in Base.__dict__,
            "b" in dir(Base),
        )

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

    return scene(
        step, lambda: setattr(a, "n", 5), lambda: setattr(Level, "__lt__", lambda s, o: True)
    )


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


@case("classes")
def operators_of_a_metaclass():
    class Meta(type):
        size = 2

        def __len__(cls):
            return cls.size

        def __iter__(cls):
            return iter(range(cls.size))

        def __contains__(cls, item):
            return item < cls.size

        def __getitem__(cls, key):
            return key * cls.size

        def __add__(cls, other):
            return cls.size + other

        def __bool__(cls):
            return cls.size > 2

        def __str__(cls):
            return f"size {cls.size}"

    class Thing(metaclass=Meta):
        pass

    def step(x):
        return len(Thing), list(Thing), 2 in Thing, Thing[3], Thing + 1, bool(Thing), str(Thing)

    return scene(step, lambda: setattr(Thing, "size", 3), lambda: setattr(Meta, "__len__", len))


@case("classes")
def a_class_of_each_call_is_registered():
    def step(x):
        class Own(collections.abc.Sized):
            def __len__(self):
                return 0

        @functools.singledispatch
        def name(arg):
            return "base"

        name.register(collections.abc.Sized, lambda arg: "sized")
        name.register(collections.abc.Set, lambda arg: "set")
        found = [name(Own()), isinstance(Own(), collections.abc.Set)]
        collections.abc.Set.register(Own)
        return [*found, name(Own()), isinstance(Own(), collections.abc.Set)], x

    return scene(step, nothing, nothing)


@case("classes")
def new_gives_an_instance_of_a_subclass():
    """Whose own `__init__` is asked."""
    log = []

    class Base:
        def __new__(cls, n):
            return object.__new__(Own if n else cls)

        def __init__(self, n):
            log.append(("base", n))

    class Own(Base):
        def __init__(self, n):
            log.append(("own", n))
            self.n = n

    class Bare(Base):
        def __init__(self, n):
            log.append(("bare", n))

    def step(x):
        found = [(type(v).__name__, vars(v)) for v in (Base(1), Base(0), Own(0))]
        return x * 2, found, vars(Bare(0)), isinstance(Bare(1), Bare)

    return scene(step, nothing, observe=lambda: log)
