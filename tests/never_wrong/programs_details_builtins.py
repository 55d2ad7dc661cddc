"""Builtins at their edges: what they refuse, what they warn of, what they ask an iterator."""


from .harness import case, over
from .programs_own_builtins import each


class Plain:
    pass


class Rows:
    """An old sequence: items and a length."""

    def __getitem__(self, index):
        return index

    def __len__(self):
        return 4


class Hinting:
    def __init__(self, hint):
        self.hint = hint

    def __length_hint__(self):
        return self.hint


class Own(int):
    pass


class OwnFloat(float):
    pass


class OwnComplex(complex):
    pass


class Answering:
    """Numbers of classes of its own, of which Python warns."""

    def __index__(self):
        return Own(3)

    def __int__(self):
        return True

    def __float__(self):
        return OwnFloat(2.0)

    def __complex__(self):
        return OwnComplex(1)


@case("builtins")
def what_cannot_be_summed():
    uses = (
        lambda: sum([], ""), lambda: sum([], b""), lambda: sum([], bytearray()),
        lambda: sum([b"a"], bytearray(b"b")), lambda: sum([[1]], []),
    )  # fmt: skip
    return over(lambda x, k: (x * k, each(uses, [])), [1.0, 2.0])


@case("builtins")
def names_of_attributes_that_are_no_text():
    thing = Plain()
    uses = (
        lambda: hasattr(math, 1), lambda: hasattr(thing, b"x"), lambda: getattr(math, 1),
        lambda: getattr([], None, 3), lambda: setattr(thing, 1, 2), lambda: delattr(thing, 2.0),
        lambda: object.__getattribute__(thing, 1), lambda: object.__setattr__(thing, 1, 2),
        lambda: object.__delattr__(thing, 1), lambda: thing.__getattribute__(None),
    )  # fmt: skip
    return over(lambda x, k: (x * k, each(uses, [])), [1.0, 2.0], lambda: thing)
