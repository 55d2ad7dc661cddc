"""Descriptors, properties, slots, and the look-up of attributes."""

import dataclasses
import functools

from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, scene


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
        step,
        lambda: setattr(Layer, "held", 3),
        lambda: setattr(Derived, "held", 4),
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
            self.__b = 2  # noqa: PLE0237

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


@case("descriptors")
def names_are_set_by_what_is_no_function():
    named = []

    class Callable:
        def __call__(self, owner, name):
            named.append(name)

    class Held:
        def __set_name__(self, owner, name):
            named.append(name)

    class Other:
        __set_name__ = Callable()

    def step(x):
        class Made:
            other = Other()

        @dataclasses.dataclass
        class Data:
            held: int = dataclasses.field(default=Held(), init=False)

        return x, len(named)

    return scene(step, nothing, observe=lambda: named)


@case("descriptors")
def a_descriptor_only_sets():
    """It has no `__get__`: what it stored in the instance is what is read, else it itself."""

    class Scaled:
        def __set__(self, obj, value):
            obj.__dict__["table"] = {**value, "sets": value.get("sets", 0) + 1}

    class Deleted:
        def __delete__(self, obj):
            obj.__dict__["gone"] = True

    class Layer:
        table, gone, word = Scaled(), Deleted(), Scaled()

    layer = Layer()

    def step(x):
        found = type(layer.table).__name__, type(layer.gone).__name__, type(Layer.table).__name__
        layer.table = {"scale": 3}
        layer.table["more"] = 2
        del layer.gone
        return x * layer.table["scale"] + layer.table["more"], found, layer.gone, layer.word is None

    return scene(step, lambda: vars(layer).pop("table"), observe=lambda: repr(layer.table)[:8])


@case("descriptors")
def a_metaclass_has_a_data_descriptor():
    class Chosen:
        def __get__(self, cls, meta=None):
            return 5 if cls is None else cls.number + 1

        def __set__(self, cls, value):
            raise AttributeError(value)

    class Plain:
        def __get__(self, cls, meta=None):
            return 7

    class OnlySets:
        def __set__(self, cls, value):
            raise AttributeError(value)

    class Meta(type):
        chosen, plain, sets = Chosen(), Plain(), OnlySets()

    class Layer(metaclass=Meta):
        number, chosen, plain, sets = 1, 2, 3, 4

    class Bare(metaclass=Meta):
        number = 10

    return scene(
        lambda x: x * Layer.chosen + Layer.plain + Layer.sets + Bare.plain + Bare.chosen,
        lambda: setattr(Layer, "number", 20),
    )


@case("descriptors")
def the_class_of_a_class():
    class Meta(type):
        pass

    class Told(type):
        @property
        def __class__(cls):
            return int

    class Plain:
        pass

    class Layer(metaclass=Meta):
        pass

    class Other(metaclass=Told):
        pass

    held = [Plain]

    def step(x):
        names = [c.__class__.__name__ for c in (Plain, Layer, Other, int, *held)]
        return x * 2, names, Plain.__class__ is type, held[0].__class__.__name__

    return scene(step, lambda: held.__setitem__(0, Layer))


@case("descriptors")
def a_slot_that_a_subclass_has_again():
    class Base:
        __slots__ = ("a", "b")

        def scale(self):
            return self.a * 2

    class Derived(Base):
        __slots__ = (*Base.__slots__, "c")

    held = Derived()
    held.a, held.c = 1.0, 2.0

    def step(x):
        made = Derived()
        made.b = held.c
        held.a, held.b = held.a + 1.0, x * held.scale()
        del made.b
        return held.b * 2, held.scale(), hasattr(made, "b"), hasattr(held, "b"), made

    def change():
        held.a = 5.0
        del held.b

    return scene(step, change, nothing, observe=lambda: held)


@case("descriptors")
def a_cached_property_itself_has_attributes():
    class Layer:
        @functools.cached_property
        def scale(self):
            return 2

    def step(x):
        Layer.scale.mark = getattr(Layer.scale, "mark", 0) + 1
        return x * Layer().scale, Layer.scale.mark, Layer.scale.attrname

    return scene(
        step,
        nothing,
        lambda: setattr(Layer.scale, "mark", 7),
        lambda: setattr(Layer.scale, "func", lambda self: 5),
        observe=lambda: Layer.scale.mark,
    )


@case("descriptors")
def the_functions_in_descriptors_have_attributes():
    class Layer:
        @staticmethod
        def plus():
            pass

        @classmethod
        def made(cls):
            pass

        @property
        def scale(self):
            pass

    def change():
        Layer.plus.mark, Layer.made.__func__.mark, Layer.scale.fget.mark = 5, 6, 7

    def step(x):
        Layer.plus.mark = getattr(Layer.plus, "mark", 0) + 1
        return (
            x * Layer.plus.mark,
            getattr(Layer().made, "mark", 0),
            hasattr(Layer.scale.fget, "mark"),
        )

    return scene(step, nothing, change, observe=lambda: Layer.plus.mark)


@case("descriptors")
def static_and_class_methods_hold_objects():
    class Counter:
        def __init__(self):
            self.count = 0

        def __call__(self, *given):
            self.count += 1
            return self.count

    class Layer:
        plus = staticmethod(Counter())
        made = classmethod(Counter())
        appended = staticmethod(functools.partial(lambda held: (held.append(1), len(held))[1], []))
        held = staticmethod([0])

    def step(x):
        Layer.held.append(1)
        return x * Layer.plus(), Layer.made(), Layer().made(), Layer.appended(), len(Layer.held)

    return scene(step, nothing, lambda: setattr(Layer.plus, "count", 10))
