"""Instances in the hands of native code: what it asks of them, how often, in which order."""

import collections
import functools
import itertools
import sys
import types

from jitcap import graph_break
from tests.never_wrong.harness import case, over
from tests.never_wrong.scene import nothing, scene

LOG = []


class Asked:
    """An instance that answers, and notes each question."""

    def __init__(self, v):
        self.v = v

    def __hash__(self):
        LOG.append("hash")
        return hash(self.v)

    def __eq__(self, other):
        LOG.append("eq")
        return self.v == getattr(other, "v", other)

    def __index__(self):
        LOG.append("index")
        return self.v

    def __bool__(self):
        LOG.append("bool")
        return self.v > 1

    def __len__(self):
        LOG.append("len")
        return self.v

    def __iter__(self):
        LOG.append("iter")
        return iter(range(self.v))

    def __pow__(self, other, modulus=None):
        LOG.append("pow")
        return self.v**other

    def __str__(self):
        LOG.append("str")
        return f"<{self.v}>"

    def __repr__(self):
        LOG.append("repr")
        return f"Asked({self.v})"


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        LOG.append("own iterator")
        return self

    def __next__(self):
        LOG.append("next")
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n

    def __length_hint__(self):
        LOG.append("hint")
        return self.n


class ByIndex:
    def __getitem__(self, i):
        LOG.append(i)
        return [10, 20, 30][i]


class Mapping:
    def keys(self):
        LOG.append("keys")
        return ["a", "b"]

    def __getitem__(self, key):
        LOG.append(key)
        return key * 2


class Words(str):
    __slots__ = ()


class Whole(int):
    pass


class Some(list):
    pass


class Fixed(tuple):
    __slots__ = ()


class Named(dict):
    pass


class Wrong(Exception):
    pass


def asking(step):
    """`step(o, p, n)` for several n, with the questions that two instances were asked."""
    LOG.clear()
    o, p = Asked(2), Asked(3)
    return over(lambda x, n: (step(o, p, n), x * n), [2, 3, 5], lambda: (LOG, o.v, p.v))


@case("asked", one_graph=True)
def lazy_builtins_with_builtin_predicates():
    return asking(
        lambda o, p, n: (
            len(list(itertools.takewhile(bool, [o, Asked(0), p]))),
            len(list(itertools.dropwhile(bool, [o, Asked(0), p]))),
            len(list(itertools.filterfalse(len, [o, Asked(0)]))),
            list(itertools.starmap(pow, [(o, n), (2, n)])),
            [len(list(g)) for _, g in itertools.groupby([Asked(1), Asked(1), o])],
            [len(list(g)) for _, g in itertools.groupby([float("nan")] * n)],
        )
    )


@case("asked", one_graph=True)
def iterators_are_asked_for_once_and_at_once():
    def step(o, p, n):
        made = [
            itertools.takewhile(bool, Countdown(2)),
            itertools.accumulate(Countdown(2)),
            itertools.groupby(Countdown(2)),
            itertools.filterfalse(None, Countdown(2)),
        ]
        LOG.append("made")
        return (
            [len(list(m)) for m in made],
            functools.reduce(lambda a, b: a + b, Countdown(4)),
            list(Countdown(n)),
            [*Countdown(1), *Countdown(2)],
            collections.Counter(Countdown(3)),
        )

    return asking(step)


@case("asked", one_graph=True)
def what_is_kept_is_no_iterator():
    def step(o, p, n):
        return (
            slice(o, None).start is o,
            functools.partial(max, o)(p, key=lambda a: a.v) is p,
            next(itertools.repeat(o, 2)) is o,
            types.MethodType(lambda a, k: a.v * k, o)(n),
            list(itertools.zip_longest([1], [2, 3], fillvalue=o))[1][0] is o,
            Wrong(o, n).args[0] is o,
        )

    return asking(step)


@case("asked", one_graph=True)
def classes_of_builtin_bases_are_made_of_instances():
    return asking(
        lambda o, p, n: (
            Words(o),
            Whole(o) + n,
            Some(o),
            Fixed(o),
            Named(Mapping()),
            Some(Countdown(2)),
            dict(Mapping(), c=n),
        )
    )


@case("asked", one_graph=True)
def counts_and_places():
    def step(o, p, n):
        taken = [1, 2, 3]
        taken[o:] = p
        taken[:1] = Countdown(2)
        return (
            taken,
            slice(1, o).indices(9),
            range(9)[slice(o, None)],
            list(enumerate("ab", o)),
            list(enumerate(o, p)),
            list(itertools.islice(range(10), o)),
            list(itertools.combinations("abc", r=o)),
            list(itertools.product(o, repeat=2)),
            list(itertools.repeat(n, o)),
        )

    return asking(step)


@case("asked", one_graph=True)
def what_has_items_alone_is_run_through():
    return asking(
        lambda o, p, n: (
            list(zip(ByIndex(), ByIndex(), strict=True)),
            dict(zip(ByIndex(), range(3), strict=True)),
            list(itertools.chain(ByIndex(), [n])),
            Some(ByIndex()),
        )
    )


@case("asked")
def keys_that_hash_themselves():
    def step(o, p, n):
        held = {2: 5}
        held[o] = n
        found = held.get(Asked(2)), held.pop(p, 7), {2: 1}.setdefault(o, n)
        made = dict.fromkeys([o, p, Asked(2)], n)
        del made[p]
        counts = collections.Counter(iter([o, Asked(2)]))
        many = {1}.union(iter([p]))
        return found, len(made), counts[o], len(many), len({**{o: 1}})

    return asking(step)


@case("asked")
def an_exception_about_an_instance():
    def step(o, p, n):
        if n == 3:
            raise ValueError([o], n)
        raise ValueError(o)

    return asking(step)


@case("asked", one_graph=True)
def methods_of_numbers_get_run_time_numbers():
    return asking(
        lambda o, p, n: (
            int.__add__(1, n),
            (7).__divmod__(n),
            float.__mul__(2.0, float(n)),
            int.__lt__(3, n),
            int.__add__(1, 2.5),
            int.__pow__(2, n, 5),
            (n).__rsub__(1),
        )
    )


@case("asked")
def slices_are_set_to_what_cannot_be_run_through():
    def step(x, n):
        told = []
        for place in (slice(0, 1), slice(None, None, 2)):
            try:
                [1, 2, 3][place] = n
            except TypeError as error:
                told.append(str(error))
        return told

    return over(step, [1, 2])


@case("asked")
def a_metaclass_in_python():
    log = []

    class Meta(type):
        @classmethod
        def __prepare__(cls, name, bases, **options):
            log.append(("prepare", name))
            return {"given": 5}

        def __new__(cls, name, bases, members, **options):
            log.append(("new", name))
            return super().__new__(cls, name, bases, dict(members))

        def __init__(self, name, bases, members, **options):
            super().__init__(name, bases, members)
            self.options = options

        def __call__(self, *args):
            log.append(("call", self.__name__))
            return super().__call__(*args)

    class Ordered(type):
        def mro(cls):
            log.append("mro")
            return super().mro()

    class Base(metaclass=Meta):
        pass

    def step(x, n):
        class Own(metaclass=Meta, flag=n):
            def times(self):
                return x * self.given

        class Sorted(metaclass=Ordered):
            k = n

        by_type = type("ByType", (Base,), {"k": n})
        by_meta = Meta("ByMeta", (), {"k": n})
        return Own().times(), Own.options, Sorted.k, by_type().k, by_meta.k

    return over(step, [1, 3], lambda: log)


@case("asked")
def an_enumeration_made_by_a_call():
    def step(x, n):
        import enum

        class Kind(enum.Enum):
            FIRST = n
            OTHER = "b"

        return x * Kind.FIRST.value, [k.name for k in Kind]

    return over(step, [1, 2])


@case("asked")
def a_module_that_answers_for_what_it_lacks():
    made = types.ModuleType("never_wrong_scene_answering")
    sys.modules[made.__name__] = made
    text = "calls = []\ndef __getattr__(name):\n    calls.append(name)\n    return len(name)\n"
    exec(text, vars(made))

    def step(x):
        return x * made.abc, made.calls[:]

    return scene(step, nothing, lambda: setattr(made, "abc", 10), observe=lambda: made.calls)


class Label(str):
    __slots__ = ()

    def __str__(self):
        return f"label {self.upper()}"


class Degrees(float):
    def __float__(self):
        return 360 * float.__float__(self)


class Level(int):
    def __int__(self):
        return 100

    __index__ = __int__


class Phase(complex):
    def __complex__(self):
        return 1j


class Raw(bytes):
    def __bytes__(self):
        return b"other"


@case("asked", one_graph=True)
def what_is_returned_is_what_it_was_made_of():
    def step(x, n):
        made = [Label("abc"), Degrees(n / 2), Level(n), Phase(n, 1), Raw(b"ab")]
        return made, x * n

    return over(step, [1, 2, 3])


@case("asked")
def a_dictionary_that_lists_its_own_keys_is_copied():
    log = []

    class Own(dict):
        def __iter__(self):
            log.append("iter")
            return iter(["z"])

        def keys(self):
            log.append("keys")
            return ["k"]

        def __getitem__(self, key):
            log.append(key)
            return f"{key}!"

    held = Own(a=1)
    return over(lambda x, n: (held.copy(), x * n), [1, 2, 3], lambda: log)


@case("asked")
def objects_with_bases_are_as_good_as_classes():
    class Based:
        def __init__(self, *bases):
            self.given = bases

        @property
        def __bases__(self):
            LOG.append("bases")
            return self.given

    class Endless:
        def __getattr__(self, name):
            return Endless(), Endless()

    def step(x, n):
        LOG.clear()
        first = Based(int)
        second = Based(first, str)
        found = [issubclass(second, first), issubclass(first, second), issubclass(second, str)]
        found += [isinstance(n, first), issubclass(int, second)]
        try:
            issubclass(Endless(), int)
        except RecursionError:
            found.append("endless")
        return x * n, found

    return over(step, [1, 2], lambda: LOG)


class Shown:
    def __get__(self, obj, cls):
        return obj is cls, cls.__name__


class Wrapped:
    shown = classmethod(Shown())
    counted = classmethod(lambda *args: len(args))
    named = classmethod(property(lambda cls: cls.__name__))
    twice = classmethod(classmethod(lambda cls: cls.__name__))


class OfWrapped(Wrapped):
    pass


@case("asked", one_graph=sys.version_info < (3, 13))
def a_class_method_of_a_descriptor():
    def step(x, n):
        found = [Wrapped.counted(), OfWrapped().counted(n)]
        for name in ("shown", "named", "twice"):
            for owner in (Wrapped, OfWrapped, OfWrapped()):
                value = getattr(owner, name)
                found.append(value if isinstance(value, str | tuple) else callable(value))
        return x * n, found

    return over(step, [1, 2])


@case("asked")
def a_descriptor_is_asked_for_each_call_between_two_parts():
    class Called:
        def __get__(self, obj, cls):
            LOG.append(obj is None)
            return lambda: 1 if obj is None else obj.v

    class Caller:
        __call__ = Called()

        def __init__(self, v):
            self.v = v

    def step(x, n):
        LOG.clear()
        caller = Caller(n)
        graph_break()
        return x * caller(), LOG.copy()

    return over(step, [1, 2])


@case("asked", one_graph=True)
def special_methods_that_are_none():
    class Untold:
        __bool__ = __len__ = __iter__ = __contains__ = __reversed__ = None

        def __getitem__(self, i):
            return [1, 2][i]

    class Sized(Untold):
        def __len__(self):
            return 2

    class Table(dict):
        __bool__ = __iter__ = __contains__ = None

    class Row(list):
        __len__ = __reversed__ = None

    asks = (
        bool, list, len, iter, tuple, sum, any, reversed,
        lambda v: 1 in v,
        lambda v: [*v],
        lambda v: not v,
        lambda v: v and 1,
        lambda v: [each for each in v],
    )  # fmt: skip

    def step(x, n):
        found = []
        for kind in (Untold, Sized, Table, Row):
            for ask in asks:
                try:
                    found.append(ask(kind()) in (True, False, n))
                except TypeError as error:
                    found.append(str(error))
        return x * n, found

    return over(step, [1, 2])


class Watched(type):
    def __setattr__(cls, name, value):
        LOG.append(name)
        super().__setattr__(name, value)


class Counted(metaclass=Watched):
    n = 0


@case("asked")
def a_class_is_written_by_its_metaclass():
    def step(x, n):
        LOG.clear()

        class Inner(metaclass=Watched):
            pass

        class Plain:
            pass

        def add(self, other):
            return other + n

        Inner.__add__ = add
        type.__setattr__(Plain, "__add__", add)
        type.__setattr__(Plain, "add", add)
        return x * n, Inner() + 1, Plain() + 2, Plain().add(3), LOG.copy()

    return over(step, [1, 2])


@case("asked")
def a_class_from_outside_is_written_by_its_metaclass():
    Counted.n = 0
    LOG.clear()

    def step(x, n):
        Counted.n = Counted.n + n
        type.__setattr__(Counted, "m", n)
        return x * n, Counted.n, Counted.m

    return over(step, [1, 2, 1], lambda: (Counted.n, LOG))
