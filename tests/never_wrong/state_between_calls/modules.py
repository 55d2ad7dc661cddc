"""Modules that are imported, reloaded, changed and removed."""

import importlib
import sys
import types

import eager
from tests.never_wrong.harness import Call, Program, case
from tests.never_wrong.scene import module, nothing, scene


def package(name, **files):
    """A package in memory, by a finder of its own; gone when the program is."""
    import importlib.abc
    import importlib.machinery

    class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, full, path=None, target=None):
            if full == name or full.removeprefix(name + ".") in files:
                return importlib.machinery.ModuleSpec(full, self, is_package=full == name)
            return None

        def exec_module(self, made):
            key = made.__name__.removeprefix(name + ".") if made.__name__ != name else "__init__"
            exec(files.get(key, ""), vars(made))

    finder = Finder()
    sys.meta_path.insert(0, finder)

    def close():
        sys.meta_path.remove(finder)
        for each in [m for m in sys.modules if m == name or m.startswith(name + ".")]:
            del sys.modules[each]

    return files, close


def imported(name, step, *changes, observe=nothing, **files):
    """A program over a package of its own, which is removed at the end."""
    held, close = package(name, **files)
    calls = [Call((eager.ones(2),), before=change) for change in (None, *changes)]
    return Program(step, calls, observe, close), held


@case("modules")
def a_module_is_imported_inside():
    def step(x):
        import nw_one

        return x * nw_one.scale

    return imported(
        "nw_one",
        step,
        nothing,
        lambda: setattr(sys.modules["nw_one"], "scale", 3),
        __init__="scale = 2\n",
    )[0]


@case("modules")
def a_submodule_is_imported_from_its_package():
    def step(x):
        from nw_two import part

        return x * part.scale, "nw_two.part" in sys.modules

    return imported(
        "nw_two",
        step,
        nothing,
        lambda: sys.modules.pop("nw_two.part"),
        __init__="",
        part="scale = 2\n",
    )[0]


@case("modules")
def an_import_has_effects_once():
    log = []
    sys.never_wrong_log = log

    def step(x):
        import nw_three  # noqa: F401

        return x + len(log)

    return imported(
        "nw_three",
        step,
        nothing,
        lambda: sys.modules.pop("nw_three"),
        nothing,
        observe=lambda: list(log),
        __init__="import sys\nsys.never_wrong_log.append(1)\n",
    )[0]


@case("modules")
def an_import_that_fails():
    def step(x):
        try:
            import nw_four

            return x * nw_four.scale
        except ImportError as error:
            return type(error).__name__, str(error)

    def add():
        made = sys.modules["nw_four"] = types.ModuleType("nw_four")
        made.scale = 4

    program = scene(step, add, lambda: sys.modules.pop("nw_four"))
    program.close = lambda: sys.modules.pop("nw_four", None)
    return program


@case("modules")
def a_name_is_imported_that_is_not_there():
    m = module("a = 1\n")
    name = m.__name__
    space = {}
    exec(
        f"def step(x):\n  try:\n    from {name} import b\n    return x * b\n  except ImportError as e:\n    return 'cannot import' in str(e)\n",
        space,
    )
    return scene(space["step"], lambda: setattr(m, "b", 3), lambda: delattr(m, "b"))


@case("modules")
def a_module_is_reloaded():
    def step(x):
        import nw_five

        return x * nw_five.scale()

    program, files = imported("nw_five", step, nothing, nothing, __init__="def scale(): return 2\n")

    def reload():
        files["__init__"] = "def scale(): return 3\n"
        importlib.reload(sys.modules["nw_five"])

    program.calls[1].before = reload
    return program


@case("modules")
def a_module_is_reloaded_inside():
    def step(x):
        import nw_six

        importlib.reload(nw_six)
        return x * nw_six.count

    return imported("nw_six", step, nothing, __init__="count = globals().get('count', 0) + 1\n")[0]


@case("modules")
def a_module_has_a_getattr():
    m = module(
        "held = 2\ndef __getattr__(name):\n  if name == 'scale': return held\n  raise AttributeError(name)\n"
    )

    def step(x):
        return x * m.scale, hasattr(m, "other")

    return scene(
        step,
        lambda: setattr(m, "held", 3),
        lambda: setattr(m, "scale", 9),
        lambda: setattr(m, "__getattr__", lambda name: 1),
        lambda: delattr(m, "scale"),
    )


@case("modules")
def a_module_attribute_is_deleted_inside():
    m = module("n = 1\n")

    def step(x):
        had = hasattr(m, "n")
        if had:
            del m.n
        else:
            m.n = 5
        return had, x

    return scene(step, nothing, nothing, observe=lambda: getattr(m, "n", None))


@case("modules")
def the_module_of_another_class():
    class Lazy(types.ModuleType):
        @property
        def scale(self):
            return self.held * 2

    m = Lazy("nw_lazy")
    m.held = 1
    return scene(
        lambda x: x * m.scale, lambda: setattr(m, "held", 2), lambda: setattr(Lazy, "scale", 7)
    )


@case("modules")
def a_star_import_and_all():
    m = module("__all__ = ['a']\na = 1\nb = 2\n")
    space = {}
    exec(f"from {m.__name__} import *\ndef step(x): return x * a, 'b' in globals()\n", space)
    return scene(space["step"], lambda: setattr(m, "a", 9), lambda: space.update(a=3))


@case("modules")
def another_module_stands_at_the_name():
    m = module("scale = 2\n")
    name = m.__name__
    space = {}
    exec(f"def step(x):\n  import {name} as m\n  return x * m.scale\n", space)

    def swap():
        sys.modules[name] = types.SimpleNamespace(scale=5)

    return scene(space["step"], swap)


@case("modules")
def a_module_global_is_a_tensor():
    m = module(
        "import eager\nW = eager.ones(3)\ndef step(x):\n  global W\n  W = W * 2\n  return x + W\n"
    )

    def put():
        m.W = eager.zeros(3)

    return scene(m.step, nothing, put, observe=lambda: m.W)


@case("modules")
def globals_are_written_through_their_dictionary():
    m = module("N = 1\ndef step(x):\n  globals()['N'] += 1\n  return x * N, 'M' in globals()\n")
    return scene(m.step, nothing, lambda: vars(m).update(M=1), observe=lambda: m.N)
