"""Conformance programs: what is thrown into generators, and into what they delegate to."""

from collections.abc import Sequence

from .table import case


class Unmade(Exception):
    """Calling it gives no exception."""

    def __new__(cls):
        return cls


class Refused(Exception):
    """Making it raises another one."""

    def __init__(self):
        raise KeyError("refused")


class Steps:
    """An iterator that writes down what a generator hands on to it."""

    def __init__(self, seen):
        self.seen = seen

    def __iter__(self):
        return self

    def __next__(self):
        return 1

    def send(self, value):
        self.seen.append(value)
        if value == "end":
            raise StopIteration("sent")
        return 2

    def throw(self, *given):
        self.seen.append(given)
        if given[0] is KeyError:
            raise StopIteration("thrown")
        return 3

    def close(self):
        self.seen.append("closed")


def delegating(seen):
    yield (yield from Steps(seen))


def contexts(error):
    """The classes of an exception and of those that it was raised behind."""
    found = []
    while error is not None:
        found.append(type(error).__name__)
        error = error.__context__
    return found


@case()
def what_cannot_be_made_is_raised_in_the_generator():
    def body():
        try:
            yield 1
        except (KeyError, TypeError) as error:
            yield type(error).__name__

    first, second = body(), body()
    next(first), next(second)
    return first.throw(Unmade), second.throw(Refused)


@case()
def what_is_no_exception_leaves_the_generator_as_it_is():
    def body():
        yield 1
        yield 2

    found, made = [], body()
    next(made)
    for given in (3, "x", list):
        try:
            made.throw(given)
        except TypeError as error:
            found.append(str(error))
    return found, next(made)


@case()
def an_exception_is_thrown_into_a_generator_that_has_ended():
    def body():
        yield 1

    found = []
    for kind in (ValueError, Unmade, StopIteration):
        for so_far in range(3):
            made = body()
            for _ in range(so_far):
                next(made, None)
            try:
                made.throw(kind)
            except Exception as error:
                found += [type(error).__name__, *contexts(error)]
            found += list(made)
    return found


@case()
def the_context_of_what_is_thrown_is_the_generator_s_own():
    def body():
        try:
            yield 1
        except ValueError as error:
            yield contexts(error)

    def handling():
        try:
            raise KeyError
        except KeyError:
            yield from body()

    found = []
    try:
        raise OSError
    except OSError:
        for made in (body(), handling()):
            next(made)
            found.append(made.throw(ValueError))
        made = None
    return found


@case()
def the_context_of_what_is_thrown_through_a_generator():
    def passing():
        try:
            raise KeyError
        except KeyError:
            yield from (i for i in (1, 2))

    def handles_nothing():
        yield from (i for i in (1, 2))

    found = []
    try:
        raise OSError
    except OSError:
        for body, started in ((passing, 0), (passing, 1), (handles_nothing, 1)):
            made = body()
            for _ in range(started):
                next(made)
            try:
                made.throw(ValueError)
            except ValueError as error:
                found.append(contexts(error))
    return found


@case()
def the_end_of_a_generator_has_the_context_of_who_closes_it():
    found = []

    def body():
        try:
            yield 1
        except GeneratorExit as error:
            found.append(contexts(error))

    made, other = body(), body()
    next(made), next(other)
    made.close()
    try:
        raise OSError
    except OSError:
        other.close()
    return found


@case()
def an_iterator_is_given_what_is_sent():
    seen = []
    made = delegating(seen)
    return next(made), made.send("first"), next(made), made.send("end"), list(made), seen


@case()
def an_iterator_is_given_what_is_thrown_as_it_was_thrown():
    seen = []
    made = delegating(seen)
    next(made)
    return made.throw(ValueError), made.throw(3), made.throw(KeyError), list(made), seen


@case()
def an_iterator_is_closed_before_the_generator_ends():
    seen = []

    def body():
        try:
            yield from Steps(seen)
        except GeneratorExit as error:
            yield error.args

    made = body()
    next(made)
    return made.throw(GeneratorExit("now")), list(made), seen


@case()
def an_iterator_that_takes_nothing():
    def body():
        yield from [1, 2]

    found = []
    for act in (lambda made: made.send(4), lambda made: made.throw(KeyError("k"))):
        made = body()
        next(made)
        try:
            act(made)
        except (AttributeError, KeyError) as error:
            found.append(str(error))
    return found


class Column(Sequence):
    def __init__(self, *values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, at):
        return self.values[at]


def counted(seen):
    try:
        yield 1
        yield 2
    except (ValueError, KeyError):
        seen.append("error")


@case()
def a_generator_left_where_it_waits_for_errors():
    """`Sequence.__iter__` waits for an IndexError when zip stops at the shorter one."""
    seen, kept = [], counted([])
    pairs = [
        *zip([1.0, 2.0], Column(3, 4, 5), strict=False),
        *zip([1], counted(seen), strict=False),
        *zip([1], kept, strict=False),
    ]
    return pairs, 4 in Column(3, 4, 5), next(kept), seen
