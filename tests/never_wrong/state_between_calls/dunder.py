"""How often, in which order and by which protocol Python runs the user's special methods."""

import functools

from jitcap import graph_break
from tests.never_wrong.harness import case, over
from tests.never_wrong.scene import nothing, scene


class Loud:
    """Writes down every special method that runs."""

    def __init__(self, n, log):
        self.n, self.log = n, log

    def say(self, what, result):
        self.log.append((what, self.n))
        return result

    def __eq__(self, other):
        return self.say("eq", isinstance(other, Loud) and self.n == other.n)

    def __hash__(self):
        return self.say("hash", hash(self.n))

    def __bool__(self):
        return self.say("bool", self.n > 0)

    def __lt__(self, other):
        return self.say("lt", self.n < other.n)

    def __gt__(self, other):
        return self.say("gt", self.n > other.n)

    def __add__(self, other):
        return self.say("add", NotImplemented)

    def __radd__(self, other):
        return self.say("radd", Loud(self.n + 1, self.log))

    def __iadd__(self, other):
        return self.say("iadd", self)

    def __len__(self):
        return self.say("len", self.n)

    def __iter__(self):
        return self.say("iter", iter(range(self.n)))

    def __getitem__(self, key):
        return self.say("getitem", key)

    def __format__(self, spec):
        return self.say("format", f"<{spec}>")

    def __str__(self):
        return self.say("str", "str")

    def __repr__(self):
        return self.say("repr", "repr")

    def __index__(self):
        return self.say("index", self.n)

    def __call__(self, *args):
        return self.say("call", len(args))

    def __enter__(self):
        return self.say("enter", self)

    def __exit__(self, *error):
        return self.say("exit", False)


def loud(use):
    """`use(x, a, b)` of two of them, and what ran."""
    log = []
    a, b = Loud(1, log), Loud(2, log)

    def step(x):
        return use(x, a, b)

    return scene(step, nothing, lambda: setattr(a, "n", 2), observe=lambda: list(log))


@case("protocols")
def equality_in_a_list():
    return loud(lambda x, a, b: (a in [b, a], [b, a].index(a), [a, b].count(b), [a] == [b]))


@case("protocols")
def equality_of_tuples_and_dictionaries():
    return loud(lambda x, a, b: ((1, a) == (1, b), {"k": a} == {"k": b}, (a,) == (a,), a != b))


@case("protocols")
def hashes_in_sets_and_dictionaries():
    return loud(lambda x, a, b: (len({a, b}), {a: 1}.get(b), a in {b}, len({a: 1, b: 2})))


@case("protocols")
def truth_in_conditions():
    return loud(lambda x, a, b: (1 if a else 2, not b, bool(a and b), any([a, b]), all([a, b])))


@case("protocols")
def order_in_sorts():
    def use(x, a, b):
        return sorted([b, a, b])[0] is a, max(a, b) is b, min([b, a]) is a, (1, a) < (1, b)

    return loud(use)


@case("protocols")
def sums_and_reflected_operators():
    return loud(lambda x, a, b: (sum([a, b], 5).n, (3 + a).n, (a + b).n))


@case("protocols")
def operators_in_place():
    def use(x, a, b):
        c = a
        c += 1
        return c is a

    return loud(use)


@case("protocols")
def lengths_and_iteration():
    return loud(lambda x, a, b: (len(b), list(b), [*a], tuple(b), 1 in b, dict.fromkeys(b)))


@case("protocols")
def formats_and_texts():
    return loud(
        lambda x, a, b: (f"{a:>3}{b!r}{a!s}", "%s %r" % (a, b), str([a]), "{0} {0!r}".format(a))
    )


@case("protocols")
def indices():
    return loud(lambda x, a, b: ([5, 6, 7][a], range(9)[b], "abc"[a:b], list(range(a)), x[a]))


@case("protocols")
def items_and_calls():
    return loud(lambda x, a, b: (a[1], a[1:2], a[1, ...], a(), a(1, 2), list(map(a, [1, 2]))))


@case("protocols")
def contexts_in_order():
    def use(x, a, b):
        with a as p, b:
            y = x + p.n
        return y

    return loud(use)


@case("protocols")
def texts_in_an_exception_and_a_print():
    def use(x, a, b):
        print(a, [b])
        try:
            raise ValueError(a)
        except ValueError as error:
            return str(error), error.args[0] is a

    return loud(use)


@case("protocols")
def an_unpacking_of_a_user_object():
    def use(x, a, b):
        p, *q = b
        return p, q, (lambda *v: v)(*b), {*b}

    return loud(use)


@case("protocols")
def a_chain_of_comparisons():
    return loud(lambda x, a, b: (a < b < a, a == b == a, (a > b) is False))


@case("protocols")
def a_match_statement():
    def use(x, a, b):
        match a:
            case Loud(n=2):
                return "two"
            case Loud(n=n):
                return n

    return loud(use)


@case("dunder")
def the_dictionary_of_an_object_made_inside_stays_its_own():
    kept = {}

    class Thing:
        def __init__(self, n):
            self.n = n
            self.own = self.__dict__

    def step(x, n):
        thing = Thing(n)
        fields = vars(thing)
        graph_break()
        thing.more = n
        fields["also"] = x
        kept["fields"], kept["thing"] = fields, thing
        return fields is vars(thing), thing.own is fields, thing.also, sorted(fields)

    def observe():
        for name in kept and ("late",):
            kept["fields"][name] = kept["thing"].n
        return kept

    return over(step, [1, 2, 3], observe)


@case("dunder")
def the_functions_of_descriptors_are_those_of_the_class():
    class Thing:
        def read(self):
            return 1

        by_name = property(read)
        kept = functools.cached_property(read)

    found = {}

    def step(x, n):
        getter = Thing.by_name.fget
        graph_break()
        found.update(getter=getter, cached=Thing.kept.func)
        return vars(Thing)["by_name"].fget is Thing.read, getter is Thing.read, x * n

    return over(step, [1, 2], lambda: [found[k] is Thing.read for k in found])
