"""The table of conformance programs: name -> (function, arguments, keywords)."""

CASES = {}


def case(*args, **kwargs):
    """Register a program with the arguments of its call."""

    def register(fn):
        CASES[fn.__name__] = (fn, args, kwargs)
        return fn

    return register
