"""A kept version is data from disk: whatever it says, reading it runs, imports and raises nothing.

Each variant is an entry that was really written, changed in one place, with the right checksum."""

import contextlib
import copy
import functools
import gc
import json
import os
import sys

import pytest

import eager
import jitcap.compile.device_parts  # noqa: F401 - ours, imported when the first version asks
from codegen.runtime import cache
from jitcap import config, jit
from jitcap.guards import class_guard
from jitcap.store import versions
from jitcap.store.fingerprint import fingerprint
from jitcap.versions.version import MISS, Options

pytestmark = pytest.mark.once

OPTIONS = Options(backend="eager")
WATCHED = (
    "import", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn",
    "subprocess.Popen", "socket.", "marshal.", "pickle.", "ctypes.", "builtins.input",
    "builtins.breakpoint", "exec.canary",
)  # fmt: skip


class Watch:
    """What an audit hook saw (a hook stays for ever, so there is one), and what `Canary` did.
    Nothing is collected meanwhile: a canary of an earlier test would end then."""

    def __init__(self):
        self.on = False
        self.seen = []
        self.tags = {}
        sys.addaudithook(self._event)

    def _event(self, name, args):
        if self.on and name.startswith(WATCHED):
            self.seen.append((name, args[:1]))

    @contextlib.contextmanager
    def watching(self):
        self.seen.clear()
        RAN.clear()
        gc.disable()
        self.on = True
        try:
            yield
        finally:
            self.on = False
            gc.enable()
            self.seen[:] = [
                e for e in self.seen if e[0] != "ctypes.cdata" or not self._tag(e[1][0])
            ]

    def _tag(self, address):
        """Whether that is a class's version tag, which `class_guard` reads by ctypes: it harms
        nothing. The classes are kept: none comes to lie where another was."""
        if address not in self.tags:
            self.tags = {id(cls) + class_guard._TAG: cls for cls in _classes()}
        return address in self.tags


def _classes():
    """All there are."""
    found, stack = {}, [object]
    while stack:
        cls = stack.pop()
        if id(cls) not in found:
            found[id(cls)] = cls
            stack += type.__subclasses__(cls)
    return found.values()


@pytest.fixture(scope="module")
def watch():
    return Watch()


RAN = []


def _says(name):
    def method(self, *args):
        if not vars(self):  # an earlier entry's may end at any time
            RAN.append(name)
        return NotImplemented

    return method


class Canary:
    """Every way in which an object of the program runs code."""

    for _name in (
        "eq ne lt le gt ge hash bool len iter getitem setitem contains add radd neg call reduce "
        "reduce_ex setstate del repr str index float int get set enter exit missing"
    ).split():
        locals()[f"__{_name}__"] = _says(_name)

    def __getattr__(self, name):
        RAN.append(name)
        raise AttributeError(name)

    @property
    def plain(self):
        RAN.append("property")

    def check(self, *args):
        RAN.append("check")

    update = extend = copy = detach = check


class Thing:
    def __init__(self):
        self.scale = 2.0


def bird(*args):
    RAN.append("bird")


def step(x, thing, table, canary):
    y = x * thing.scale + len(table["names"])
    table["last"] = y
    return y, (canary, "done")


@pytest.fixture(scope="module")
def kept(tmp_path_factory, watch):
    """An entry as it was written: its key, its files, the call."""
    before = os.environ.get("JITCAP_CACHE_DIR")
    os.environ["JITCAP_CACHE_DIR"] = str(tmp_path_factory.mktemp("kept") / "cache")
    with config(check=False):
        yield (made := Kept(watch))
    vars(made.args[3])["over"] = True
    if before is None:
        del os.environ["JITCAP_CACHE_DIR"]
    else:
        os.environ["JITCAP_CACHE_DIR"] = before


class Kept:
    def __init__(self, watch):
        self.watch = watch
        self.args = (eager.ones(2), Thing(), {"names": ["a", "b"], "last": None}, Canary())
        jit(step, backend="eager")(*self.args)
        self.keys = versions.keys_of(step, self.args, {}, OPTIONS, set())
        self.name = versions._slot(self.keys.exact, 0)
        entry = cache.default().get(self.name)
        self.path = entry.path
        self.start = json.loads(entry.file("start").read_bytes())
        self.rest = json.loads(entry.file("rest").read_bytes())
        RAN.clear()

    def store(self, start, rest):
        cache.default().clear()
        files = {"start": _bytes(start), "rest": _bytes(rest)}
        cache.default().put(self.name, {}, files)

    def recall(self):
        """What is found; whatever happens, nothing of the program may run."""
        with self.watch.watching():
            found = versions.recall(self.keys, step, self.args, {}, OPTIONS, None)
        assert not self.watch.seen
        assert not RAN
        return found

    def is_miss(self, start=None, rest=None):
        self.store(self.start if start is None else start, self.rest if rest is None else rest)
        assert self.recall() is None

    def constant(self, value):
        """The entry, with another object in the place of a constant that it calls."""
        start = copy.deepcopy(self.start)
        start["constants"][self.called()] = value
        return start

    def called(self):
        return next(row[2][1] for row in self.start["body"] if row[2][:1] == ["call"])

    def with_guard(self, row):
        """The entry, with one more guard, after the others."""
        return {**self.start, "guards": [*self.start["guards"], row]}

    def asking(self, term, constant):
        """The entry, with one more constant, about which a guard asks."""
        constants = {**self.start["constants"], "C999": constant}
        return {**self.with_guard(["let", "v999", term]), "constants": constants}

    def with_body(self, row):
        return {**self.start, "body": [row, *self.start["body"]]}


def _bytes(data):
    return data if isinstance(data, bytes) else json.dumps(data).encode()


def test_the_entry_itself_is_taken(kept):
    kept.store(kept.start, kept.rest)
    assert kept.recall() is not None
    with config(check=False):
        step_again = jit(step, backend="eager")
        value, (canary, done) = step_again(*kept.args)
    assert (value.tolist(), canary is kept.args[3], done) == ([4, 4], True, "done")
    assert step_again.stats.compiles == 1
    RAN.clear()


def test_a_harmless_change_is_taken(kept):
    """So that the others are refused for what they say."""
    for start in (
        kept.with_guard(["let", "v999", OBJECT]),
        kept.with_guard(["let", "v999", ["len", ["list", ["attribute", "v1", "'__class__"]]]]),
        kept.with_guard(["hold", ["not", ["is", "args", "kwargs"]]]),
        kept.with_guard(["let", "v999", ["tuple", "v1", "v1", "None", "=0.5"]]),
        kept.with_guard(EACH),
        kept.with_body(["let", "t999", OBJECT]),
    ):
        kept.store(start, kept.rest)
        assert kept.recall() is not None


def test_a_guard_that_is_not_printed(kept):
    """What a call does not evaluate is looked at before it is compiled: then nothing fits."""
    for hidden in (DEEP_TERM, ["call", "C1"], ["eval", "args"], "os", ["check", "args", 1]):
        kept.store(kept.with_guard(["hold", ["or", "True", hidden]]), kept.rest)
        found = kept.recall()
        assert found is not None
        with kept.watch.watching():
            assert found.call(kept.args, {}) is MISS
        assert not RAN


OBJECT, TABLE, FIRST = (["item", "args", i] for i in (3, 2, 0))
EACH = ["each", ["tuple", TABLE], "None", ["len", "x0"], ["let", "x0", ["item", "v", "'names"]]]
DEEP_TERM = functools.reduce(lambda term, _: ["not", term], range(300), "args")
FUNCTIONS = (
    "os.system posix.system os.popen os.remove subprocess.Popen subprocess.run builtins.eval "
    "builtins.exec builtins.compile builtins.open builtins.__import__ builtins.input "
    "builtins.breakpoint builtins.getattr builtins.setattr builtins.memoryview builtins.globals "
    "importlib.import_module pickle.loads marshal.loads ctypes.CDLL shutil.rmtree sys.exit "
    "socket.socket runpy.run_module timeit.timeit io.open io.BytesIO _io.open code.interact "
    "operator.methodcaller operator.attrgetter operator.call functools.reduce "
    "functools.cached_property random._urandom logging.os contextlib.exec numpy.load numpy.save "
    "eager.load eager.save eager.core.tensor.no_such jitcap.api.jit antigravity.geohash this.s "
    "not_imported_yet.function builtins.object.__subclasses__ builtins.type.mro "
    "builtins.object.__reduce__ builtins.object.__reduce_ex__"
).split()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_no_entry_calls(kept, name):
    module, _, member = name.partition(".")
    if name.count(".") == 2 and module != "builtins":
        module, _, member = name.rpartition(".")
    kept.is_miss(kept.constant(["library", module, member]))
    kept.is_miss(kept.constant(["program", module, member, "0" * 64]))


@pytest.mark.parametrize("value", [bird, Canary], ids=lambda value: value.__name__)
def test_a_function_of_the_program(kept, value):
    """It can be named, if its text is the same, and not called."""
    kept.is_miss(kept.constant(["program", __name__, value.__qualname__, fingerprint(value)]))


DEEP = 20_000
VALUES = {
    "unknown": ["no such tag"],
    "empty": [],
    "number": 3,
    "nested tag": [["tuple"]],
    "object": {"a": 1},
    "again": ["again", 10**6],
    "again before": ["again", -1],
    "known": ["known", "C0"],
    "own": ["own", "os.environ"],
    "vars": ["vars", "os"],
    "vars of builtins": ["vars", "builtins"],
    "module": ["module", "os"],
    "module that is not imported": ["module", "antigravity"],
    "many parts": ["DType", "float32", 1],
    "array": ["array", "float32", [4], [0], "AAAA"],
    "array of objects": ["array", "object", [1], [0], "AAAAAAAAAAA="],
    "negative array": ["array", "float32", [-1], [0], ""],
    "huge array": ["array", "float32", [10**15, 10**15], [0, 1], ""],
    "axes": ["array", "float32", [1], [5], "AAAAAA=="],
    "scalar": ["scalar", "float32", [2], [0], "AAAAAA=="],
    "record": ["record", "Aval", 1, 2, 3, 4],
    "record of another class": ["record", "os.stat_result", 1],
    "record of the cache": ["record", "codegen.runtime.cache.Entry", 1, 2, 3],
    "class of the program as a record": ["record", f"{__name__}.Canary"],
    "short record": ["record", "Aval", ["tuple", 1]],
    "member": ["member", ["library", "builtins", "int"], "real"],
    "member that is not there": ["member", ["library", "enum", "Enum"], "real"],
    "pattern": ["pattern", "(" * 50, 0],
    "pattern that prints": ["pattern", "a", 128],
    "slice": ["slice", 1],
    "range": ["range", "a", 1, 2],
    "key": ["dict", [["list"], 1]],
    "set of lists": ["set", ["list"]],
    "op": ["op", "system"],
    "graph op": ["graph op", "system"],
    "device": ["device", "cpu", -1],
    "seen": ["seen", ["list", 1], [], []],
    "layout": ["seen", ["list", None], [[["x"], "float32", [4], True]], [0]],
    "no layout": ["seen", ["list", None], [], [0]],
    "layout before": ["seen", ["list", None], [[[1], "float32", [4], True]], [-1]],
    "text of bytes": ["bytes", "\u20ac"],
    "deep": "deep",
}


@pytest.mark.parametrize("name", VALUES)
def test_a_constant_that_none_is(kept, name):
    if name == "deep":
        text = json.dumps(kept.constant("DEEP"))
        kept.is_miss(text.replace('"DEEP"', '["tuple", ' * DEEP + "1" + "]" * DEEP).encode())
    else:
        kept.is_miss(kept.constant(VALUES[name]))


TERMS = (
    ["open", "args"], ["eval", "args"], ["exec", "args"], ["__import__", "'os"], ["print", "args"],
    ["getattr", "args", "kwargs"], ["vars"], ["globals"], ["Import", "'os"], ["Lambda", "args"],
    ["IfExp", "args", "args", "args"], ["NamedExpr", "args", "args"], ["ListComp", "args"],
    ["Await", "args"], ["Yield", "args"], ["JoinedStr", "args"], ["call", ["item", "args", 3]],
    ["call", "args"], ["call", "v1", "args"], ["call", "'os.system"], ["call", ["type", "args"]],
    ["check", ["item", "args", 3], 0, 0], ["method", "'update", ["item", "args", 3], "args"],
    ["method", "'update", "args", "args"], ["method", "'plain", ["item", "args", 3]],
    ["call", ["attribute", ["attribute", "args", "'__class__"], "'__subclasses__"]],
    ["attribute", "args", "'__reduce__"], ["attribute", "args", "'__init_subclass__"],
    ["attribute", "args", "'__builtins__"], ["attribute", "args", "'x.y"],
    ["attribute", "args", "'x y"], ["attribute", "args", "'x()"], ["attribute", "args", "'"],
    ["attribute", "args", "args"], ["attribute", "args", 1], ["attribute", "args", None],
    ["attribute", "args", ["list"]], ["attribute", "args"], ["attribute", "args", "'a", "'b"],
    ["type", "args", "args", "args"], ["type", "'A", ["tuple"], ["dict"]], ["type"],
    ["len", ["star", "args"]], ["star", "args"], ["keyword", "'x", "args"], ["dict", "args", "args"],
    ["run", ["list"]], ["begin"], ["attach", "args"], ["new", "C1"], ["after", "args", 1],
    ["differ", "args", "args"], ["apart", "args", "args", "args"], ["isdisjoint", "args", "args"],
    ["isdisjoint", ["listed", "args"], "args"], ["bytes", 1], ["bytes", "'\u20ac"], ["bytes"],
    "K", "R", "MISS", "o", "os", "f0", "a1", "v", "", "v1; import os", "args # x", "C999", "v12345",
    "v\u0663", "args\nimport os", {"a": 1}, [], [[]], ["item"], ["item", "args"], [1, 2], [None],
    ["item", "args", 0, 0], ["is", "args"], ["+", 1, 2, 3], ["+", "args", 1], ["+", "'a", "'b"],
    ["**", "args", 2], ["u-", "args"], ["-", "args"], ["not", "args", "args"], ["int", "'5"],
    "=nan", "=x", "=1; x", True, None, 0.5, ["shown", "'os"], ["stars", "args"], ["slice", "os"],
    ["float", "'nan"], ["let", "v998", "args"], ["hold", "args"], ["not", "os"], ["tuple", "os"],
    ["set", "args"], ["item", "args", ["list"]], ["id", "args", "args"], ["hasattr", "args"],
    ["call", ["attribute", ["attribute", OBJECT, "'__class__"], "'plain"], "args"],
)  # fmt: skip


@pytest.mark.parametrize("term", TERMS, ids=lambda term: repr(term)[:50])
def test_a_term_that_none_is(kept, term):
    kept.is_miss(kept.with_guard(["let", "v999", term]))
    kept.is_miss(kept.with_guard(["hold", term]))


ROWS = (
    None, 7, "x", "let", [], [[]], {}, [None], ["Import", "os"], ["import os"], ["let"],
    ["let", "v999"], ["let", "v999", 1, 2], ["let", "args", 1], ["let", "K", 1], ["let", "MISS", 1],
    ["let", "C999", 1], ["let", "C1", 1], ["let", "'v", 1], ["let", 5, 1], ["let", "", 1],
    ["let", "v", 1], ["let", "v9; import os", 1], ["let", "v\u0663", 1], ["let", ["v1"], 1],
    ["take", "C999", "args"], ["take", "C1", ["item", "args", 3]], ["take", "v999", "args"],
    ["take", "args", "args"], ["take", "C1"], ["hold"], ["hold", "args", "args"], ["hold", "False"],
    ["each", "args", "args"], ["each", "args", 1, "True"], ["each", 1, "args", "True"],
    ["each", ["item", "args", 3], "args", "True"], ["each", "args", ["item", "args", 3], "True"],
    ["each", ["tuple", 1], ["tuple", 1], ["eval", "v"]], ["each", ["tuple", 1], ["tuple", 1], "False"],
    ["do", "args"], ["return", "args"], ["set", ["attribute", "args", "'x"], 1], ["Assert", "args"],
    ["set", ["item", ["item", "args", 2], "'x"], 1], ["add", "args", 1], ["count", ["list"], 1],
)  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: repr(row)[:50])
def test_a_row_that_is_no_guard(kept, row):
    kept.is_miss({**kept.start, "guards": [*kept.start["guards"], row]})


BODY = (
    ["Import", "'os"], ["let", "t999", ["eval", "args"]], ["let", "t999", "R"],
    ["let", "t999", ["check", ["item", "args", 3]]], ["let", "t999", "t99999"],
    ["let", "t999", ["method", "'plain", ["item", "args", 3]]], ["let", "t999", ["Lambda"]],
    ["let", "t999", ["call", ["item", "args", 3]]], ["let", "t999", ["call", "args"]],
    ["let", "t999", ["call", "v1"]], ["let", "t999", ["new", "args"]], ["let", "v999", 1],
    ["let", "K", 1], ["let", "MISS", 1], ["let", "t9 = 1; x", 1], ["let", "t999"], ["take", "C1", 1],
    ["set", ["attribute", ["item", "args", 3], "'hidden"], 1], ["set", ["list"], 1],
    ["set", ["attribute", ["item", "args", 3], "'__class__"], 1], ["set", "args", 1],
    ["set", ["attribute", ["item", "args", 3], "_array"], 1], ["add", ["call", "C1"], 1],
    ["do", ["method", "'__setstate__", ["item", "args", 3], 1]],
    ["do", ["method", "'__reduce__", ["item", "args", 3]]],
    ["do", ["method", "'update", ["item", "args", 3], 1]],
    ["do", ["method", "'update", ["attribute", "args", "'__dict__"], 1]],
    ["do", ["method", "'update", ["call", "args"], 1]], ["do", ["method", "update", "t1", 1]],
    ["do", ["attach", "os"]], ["do", ["attach"]], ["do", ["begin", 1]], ["do", ["begin"]],
    ["do", ["run"]], ["do", ["run", 1, 2, 3, 4]], ["do", ["call", "C1", ["keyword", "'a b", 1]]],
    ["do", ["dict", 1]], ["do", "os"], ["do", "v"], ["do", DEEP_TERM], ["do", float("nan")],
    ["do", ["+", float("inf"), 1]], ["do", ["+", "=inf", 1]], ["delete", "args"], ["do"],
    ["return"], ["return", "os"], ["return", ["Yield"]], ["count", "os", 1], ["count", "args", "os"],
    ["hold", "True"], ["each", "args", "args", "True"], None, 7, "x", [], [[]], {}, ["raise", 1],
)  # fmt: skip


@pytest.mark.parametrize("row", BODY, ids=lambda row: repr(row)[:50])
def test_an_effect_outside_the_language(kept, row):
    kept.is_miss({**kept.start, "body": [row, *kept.start["body"]]})
    kept.is_miss(kept.with_guard([*EACH, row]))  # a loop does nothing but read


PLAIN = ["attribute", OBJECT, "'plain"]
OPERATIONS = (
    PLAIN, ["attribute", OBJECT, "'hidden"], ["==", OBJECT, FIRST], ["==", FIRST, OBJECT],
    ["!=", OBJECT, 1], ["in", OBJECT, TABLE], ["in", 1, OBJECT], ["and", OBJECT, "args"],
    ["item", OBJECT, 0], ["item", TABLE, OBJECT], ["+", OBJECT, 1], ["+", 1, OBJECT], ["<", OBJECT, 1],
    ["hasattr", OBJECT, "args"], ["len", ["listed", OBJECT]], ["item", TABLE, ["tuple", OBJECT]],
    *(["isdisjoint", ["set", x], y] for x, y in ((PLAIN, "args"), (OBJECT, "args"), (1, OBJECT))),
    ["in", ["tuple", OBJECT], TABLE], ["==", ["list", OBJECT], ["list", OBJECT]],
    *([name, OBJECT] for name in "len listed not u- abs int bool float complex frozenset".split()),
)  # fmt: skip


@pytest.mark.parametrize("term", OPERATIONS, ids=lambda term: repr(term)[:50])
def test_a_guard_that_would_run_the_program(kept, term):
    kept.is_miss(kept.with_guard(["let", "v999", term]))


@pytest.mark.parametrize("name", ["memory_of", "Seen"])
def test_a_helper_that_would_run_the_program(kept, name):
    call = ["call", "C999", OBJECT]
    kept.is_miss(kept.asking(call, ["library", "jitcap.guards.tensor_guard", name]))
    seen, row, ids = "C999", ["tuple", OBJECT], ["attribute", "C999", "'ids"]
    for term in (["apart", seen, row, row], ["differ", seen, row], ["isdisjoint", ids, row]):
        kept.is_miss(kept.asking(term, ["seen", ["list"], [], []]))


WRITERS = (
    "builtins.print", "builtins.iter", "builtins.dict", "time.sleep", "random.uniform",
    "builtins.object.__setattr__", "builtins.object.__delattr__", "builtins.dict.__setitem__",
    "builtins.dict.clear", "builtins.dict.update", "builtins.list.append", "types.FunctionType",
    "eager.core.tensor.wrap", "eager.core.dispatch.apply", "jitcap.capture.tracebacks.warn_above",
)  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_a_guard_that_would_change_something(kept, name):
    module, _, member = name.partition(".") if "builtins" in name else name.rpartition(".")
    for arguments in ([TABLE], [TABLE, "args"], [TABLE, "args", "args"]):
        kept.is_miss(kept.asking(["call", "C999", *arguments], ["library", module, member]))
    assert kept.args[2]["names"] == ["a", "b"]


@pytest.mark.parametrize("name", ["text_of", "same_items", "same_keys", "lacks", "same_scalar"])
def test_a_comparison_that_would_run_the_program(kept, name):
    for given in ([OBJECT], [OBJECT, "args"], ["args", OBJECT], [["list", OBJECT]] * 2):
        term = ["call", "C999", *given]
        kept.is_miss(kept.asking(term, ["library", "jitcap.base.equality", name]))


@pytest.mark.parametrize("method", ["update", "extend", "clear", "copy", "append", "put"])
def test_a_method_of_the_program(kept, method):
    call = ["do", ["method", f"'{method}", "v999", "args"]]
    body = kept.with_body(call)["body"]
    kept.is_miss({**kept.with_guard(["let", "v999", OBJECT]), "body": body})


@pytest.mark.parametrize("name", ["__getattribute__", "__setattr__", "__init__"])
def test_a_method_of_object(kept, name):
    term = ["call", "C999", OBJECT, "'plain"]
    kept.is_miss(kept.asking(term, ["library", "builtins", f"object.{name}"]))


@pytest.mark.parametrize("field", [
    "name", "shape", "state", "roots", "found", "constants", "guards", "body",
    "writes", "strides", "executable",
])  # fmt: skip
def test_fields(kept, field):
    without = {k: v for k, v in kept.start.items() if k != field}
    kept.is_miss(without)
    for value in (7, "x", [7], {"x": 7}, [[None]], [["os", "environ", 1]], {"fn": "fn"}):
        if value != kept.start[field] and not (field == "name" and type(value) is str):
            kept.is_miss({**kept.start, field: value})


def test_the_guards_and_the_graph(kept):
    """They are read later, when somebody asks; a version whose graph is needed reads them now."""
    for rest in (b"", b"{", b"[]", b"[" * DEEP, {}, {"guards": []}, {"guards": [], "graph": 1},
                 {"guards": ["x"], "graph": kept.rest["graph"]},
                 {"guards": [["op", "add"]], "graph": kept.rest["graph"]}):  # fmt: skip
        kept.is_miss(rest=rest)
    tag, data = kept.rest["graph"]
    nodes, neg = data["nodes"], ["neg", [["%", 99]], {}, [], ["", 0, ""]]
    for changed in (
        {"inputs": data["inputs"] + 1}, {"outputs": [10**6]}, {"outputs": [-1]}, {"name": 5},
        {"nodes": [*nodes, ["system", [], {}, [], ["", 0, ""]]]}, {"nodes": [*nodes, neg]},
        {"nodes": [*nodes, [["library", "os", "system"], [], {}, [], ["", 0, ""]]]},
    ):  # fmt: skip
        kept.is_miss(rest={**kept.rest, "graph": [tag, data | changed]})


def _truncate(path):
    (path / "start").write_bytes((path / "start").read_bytes()[:-5])


def _swap(path):
    (path / "start").rename(path / "other")
    (path / "rest").rename(path / "start")
    (path / "other").rename(path / "rest")


def _link(path):
    (path / "start").rename(path.parent / "elsewhere")
    (path / "start").symlink_to(path.parent / "elsewhere")


def _link_directory(path):
    path.rename(path.parent / "elsewhere")
    path.symlink_to(path.parent / "elsewhere")


def _pipe(path):
    (path / "start").unlink()
    os.mkfifo(path / "start", 0o600)


def _rewrite_manifest(**fields):
    def change(path):
        manifest = path / cache.MANIFEST
        body = json.loads(manifest.read_text().partition("\n")[2]) | fields
        text = json.dumps(body)
        manifest.write_text(f"{cache.digest(text)}\n{text}")

    return change


def _deep_manifest(path):
    text = "[" * DEEP
    (path / cache.MANIFEST).write_text(f"{cache.digest(text)}\n{text}")


def _owner(path):
    if os.getuid():
        pytest.skip("only root can give a file away")
    os.chown(path / "start", 12345, 12345)


FILES = {
    "truncated": _truncate,
    "swapped": _swap,
    "link": _link,
    "link to a directory": _link_directory,
    "pipe": _pipe,
    "gone": lambda path: (path / "start").unlink(),
    "empty manifest": lambda path: (path / cache.MANIFEST).write_text(""),
    "manifest of bytes": lambda path: (path / cache.MANIFEST).write_bytes(b"\xff\xfe"),
    "deep manifest": _deep_manifest,
    "writable file": lambda path: (path / "start").chmod(0o666),
    "writable for the group": lambda path: (path / "rest").chmod(0o620),
    "writable entry": lambda path: path.chmod(0o777),
    "writable shelf": lambda path: path.parent.chmod(0o720),
    "writable manifest": lambda path: (path / cache.MANIFEST).chmod(0o606),
    "another owner": _owner,
    "another key": _rewrite_manifest(key="0" * 64),
    "another format": _rewrite_manifest(format=0),
    "no files": _rewrite_manifest(files={}),
    "list of files": _rewrite_manifest(files=["start", "rest"]),
    "file outside": _rewrite_manifest(files={"../../x": {"sha256": "", "size": 0}}),
    "file of the system": _rewrite_manifest(files={"/etc/passwd": {"sha256": "", "size": 0}}),
    "sizes": _rewrite_manifest(files={"start": {"sha256": "", "size": "x"}}),
    "data": _rewrite_manifest(data=[]),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_files(kept, name):
    kept.store(kept.start, kept.rest)
    path = cache.default().get(kept.name).path
    FILES[name](path)
    try:
        assert kept.recall() is None
    finally:
        path.parent.chmod(0o700)


@pytest.mark.parametrize(
    "names", [None, 3, [3], [["x"]], ["x.shape[z]~1>2"], ["x.shape[]~"], ["x~1"], ["x.shape[-1]~2"]]
)
def test_names_of_what_varies(kept, names):
    kept.is_miss({**kept.start, "varying": names})


def test_names_of_what_varies_are_taken(kept):
    kept.store({**kept.start, "varying": ["x.shape[0]~2>3", "+~", "n"]}, kept.rest)
    assert kept.recall().varying == {"x.shape[0]~2>3", "+~", "n"}
