"""A kept version is data from disk: whatever it says, reading it runs, imports and raises nothing.

Each variant is an entry that was really written, changed in one place, with the right checksum.
"""

import contextlib
import copy
import json
import os
import re
import sys

import pytest

import eager
from codegen.runtime import cache
from jitcap import config, jit
from jitcap.kept import versions
from jitcap.kept.fingerprint import fingerprint
from jitcap.version import Options

OPTIONS = Options(backend="eager")
WATCHED = (
    "import", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn",
    "subprocess.Popen", "socket.", "marshal.", "pickle.", "ctypes.", "builtins.input",
    "builtins.breakpoint", "exec.canary",
)  # fmt: skip


class Watch:
    """What an audit hook saw (a hook stays for ever, so there is one), and what `Canary` did."""

    def __init__(self):
        self.on = False
        self.seen = []
        sys.addaudithook(self._event)

    def _event(self, name, args):
        if self.on and name.startswith(WATCHED):
            self.seen.append((name, args[:1]))

    @contextlib.contextmanager
    def watching(self):
        self.seen.clear()
        self.on = True
        try:
            yield
        finally:
            self.on = False


@pytest.fixture(scope="module")
def watch():
    return Watch()


RAN = []


def _says(name):
    def method(self, *args):
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
        yield Kept(watch)
    if before is None:
        del os.environ["JITCAP_CACHE_DIR"]
    else:
        os.environ["JITCAP_CACHE_DIR"] = before


class Kept:
    def __init__(self, watch):
        self.watch = watch
        self.args = (eager.ones(2), Thing(), {"names": ["a", "b"], "last": None}, Canary())
        jit(step, backend="eager")(*self.args)
        self.key = versions.key_of(step, self.args, {}, OPTIONS, set())
        self.name = versions._slot(self.key, 0)
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
            found = versions.recall(self.key, step, self.args, {}, OPTIONS, None)
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
        return re.search(r"^\d+ t\d+ (C\d+) l\d+$", self.start["body"], re.MULTILINE)[1]

    def with_guard(self, shape, *holes, **tables):
        """The entry, with one more guard, after the others."""
        start = copy.deepcopy(self.start)
        start["tables"]["shapes"].append(shape)
        for name, values in tables.items():
            start["tables"][name] += values
        line = " ".join([str(len(start["tables"]["shapes"]) - 1), *holes])
        start["guards"] += f"\n{line}"
        return start

    def with_body(self, shape, *holes):
        start = copy.deepcopy(self.start)
        start["tables"]["shapes"].append(shape)
        line = " ".join([str(len(start["tables"]["shapes"]) - 1), *holes])
        start["body"] = f"{line}\n{start['body']}"
        return start


def _bytes(data):
    return data if isinstance(data, bytes) else json.dumps(data).encode()


def test_the_entry_itself_is_taken(kept):
    kept.store(kept.start, kept.rest)
    found = kept.recall()
    assert found is not None
    with config(check=False):
        step_again = jit(step, backend="eager")
        value, (canary, done) = step_again(*kept.args)
    assert (value.tolist(), canary is kept.args[3], done) == ([4, 4], True, "done")
    assert step_again.stats.compiles == 1
    RAN.clear()


def test_a_harmless_change_is_taken(kept):
    """So that the others are refused for what they say."""
    member, run = (f"{n[0]}{len(kept.start['tables'][n])}" for n in ("members", "runs"))
    for start in (
        kept.with_guard("%s = args[3]", "v999"),
        kept.with_guard("%s = len(args)", "v999"),
        kept.with_guard("%s = %s.%s", "v999", "v1", member, members=["__class__"]),
        kept.with_guard("if args is kwargs: return MISS"),
        kept.with_guard("%s = (%s,)", "v999", run, runs=["v1, v1"]),
        kept.with_body("%s = args[3]", "t999"),
    ):
        kept.store(start, kept.rest)
        assert kept.recall() is not None


FUNCTIONS = (
    "os.system posix.system os.popen os.remove subprocess.Popen subprocess.run builtins.eval "
    "builtins.exec builtins.compile builtins.open builtins.__import__ builtins.input "
    "builtins.breakpoint builtins.getattr builtins.setattr builtins.memoryview builtins.globals "
    "importlib.import_module pickle.loads marshal.loads ctypes.CDLL shutil.rmtree sys.exit "
    "socket.socket runpy.run_module timeit.timeit io.open io.BytesIO _io.open code.interact "
    "operator.methodcaller operator.attrgetter operator.call functools.reduce "
    "functools.cached_property random._urandom logging.os contextlib.exec numpy.load numpy.save "
    "eager.load eager.save eager.tensor.no_such jitcap.api.jit antigravity.geohash this.s "
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
    "seen": ["seen", ["list", 1]],
    "layout": ["seen", ["list", None], [["x"], "float32", [4], True]],
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


SHAPES = (
    "import os", "from os import *", "%s = open", "%s = eval(args)", "%s = exec(args)",
    "%s = __import__(args)", "%s = print(args)", "%s = getattr(args, kwargs)", "%s = vars()",
    "%s = (lambda: args)()", "%s = [x for x in args]", "%s = {x: x for x in args}",
    "%s = (y := args)", "%s = args if args else args", "%s = yield", "%s = await args",
    "%s = args[3]()", "%s = args[3].check()", "%s = args[3].update(args)", "%s = args[3].plain()",
    "%s = args.__class__.__base__.__subclasses__()", "%s = args.__reduce__",
    "%s = args.__init_subclass__", "%s = args.__builtins__", "%s = type(args, args, args)",
    "%s = len(*args, **kwargs)", "%s = args < args < args", "raise args", "del args", "global x",
    "while args: pass", "with args: pass", "class A: pass", "def f(): pass", "assert args",
    "for x in args: pass", "for v in args:\n  import os", "try:\n  args\nexcept: pass",
    "if not (args): pass\nelse: pass", "if not (args): return K", "return eval(args)",
    "a1 = args", "%s = a1", "%s = f0()", "%s = K(args)", "%s = R", "%s = 'text'", "%s = args # x",
    "%s = args; import os", "%s = args\nimport os", "%s = \\\nargs", "%d = args", "%(x)s = args",
    "%1000000000s = args", "%s = " + "(" * 300 + "args" + ")" * 300, "%s = " + "-" * 5000 + "1",
    "%s = args" + "[0]" * 5000, "%s = f'{args}'", "%s", "", "\0", "%s = ", "%s := ", "%s = match",
    "@args\ndef f(): pass", "%s = *args", "nonlocal args", "%s: int = args", "%s += 1",
)  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: repr(shape[:30]))
def test_a_statement_outside_the_language(kept, shape):
    holes = ["v999"] if shape.startswith("%s") else []
    kept.is_miss(kept.with_guard(shape, *holes))


BODY = (
    "import os", "%s = eval(r)", "%s = args[3].check()", "%s = args[3].plain()", "%s = args[3]()",
    "args[3].hidden = 1", "args[3].__class__ = 1", "%s = R.attach", "R.attach(r, r, r)",
    "args[3].__setstate__(1)", "args[3].__reduce__()", "%s = [x for x in r]", "K = 1",
    "%s = args[3].__new__(args)", "%s = lambda: 1", "raise r", "%s = dict(**kwargs)", "MISS = 1",
    "return (yield)", "%s = t99999", "args[3].__dict__.__init__(r)",
)  # fmt: skip


@pytest.mark.parametrize("shape", BODY)
def test_an_effect_outside_the_language(kept, shape):
    kept.is_miss(kept.with_body(shape, *(["t999"] if shape.startswith("%s") else [])))


OPERATIONS = (
    "%s = args[3].plain", "%s = args[3].hidden", "%s = args[3].__call__()", "%s = len(args[3])",
    "%s = args[3] == args[0]", "%s = args[0] == args[3]", "%s = args[3] != 1",
    "%s = args[3] in args[2]", "%s = 1 in args[3]", "%s = [*args[3]]", "%s = not args[3]",
    "%s = args[3] and args", "%s = args[3][0]", "%s = args[2][args[3]]", "%s = args[3] + 1",
    "%s = 1 + args[3]", "%s = -args[3]", "%s = args[3] < 1", "%s = hasattr(args[3], args)",
    "%s = args[3].__class__.plain.fget(args)", "if args[3]: return MISS",
    "for v in args[3]:\n  if v: return MISS", "%s = {args[3].plain}.isdisjoint(args)",
    "for v in zip(args[3]):\n  if v: return MISS", "%s = {args[3]}.isdisjoint(args)",
    "%s = {1}.isdisjoint(args[3])", "%s = abs(args[3])", "%s = int(args[3])", "%s = bool(args[3])",
    "%s = float(args[3])", "%s = complex(args[3])", "%s = frozenset(args[3])",
    "%s = len([*args[3]])", "%s = args[0:args[3]]", "%s = args[2][(args[3],)]",
    "%s = [args[3]] == [args[3]]", "%s = (args[3],) in args[2]",
)  # fmt: skip


@pytest.mark.parametrize("shape", OPERATIONS)
def test_a_guard_that_would_run_the_program(kept, shape):
    kept.is_miss(kept.with_guard(shape, *(["v999"] if shape.startswith("%s") else [])))


@pytest.mark.parametrize("name", ["memory_of", "Seen"])
def test_a_helper_that_would_run_the_program(kept, name):
    start = kept.with_guard("%s = %s(args[3])", "v999", "C999")
    start["constants"]["C999"] = ["library", "jitcap.tensor_guard", name]
    kept.is_miss(start)
    for text in ("apart((args[3],), ())", "differ((args[3],))", "ids.isdisjoint((args[3],))"):
        start = kept.with_guard(f"%s = %s.{text}", "v999", "C999")
        start["constants"]["C999"] = ["seen", ["list"]]
        kept.is_miss(start)


WRITERS = (
    "builtins.print", "builtins.iter", "builtins.dict", "time.sleep", "random.uniform",
    "builtins.object.__setattr__", "builtins.object.__delattr__", "builtins.dict.__setitem__",
    "builtins.dict.clear", "builtins.dict.update", "builtins.list.append", "types.FunctionType",
    "eager.tensor.wrap", "eager.dispatch.apply", "jitcap.capture.located.warn_above",
)  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_a_guard_that_would_change_something(kept, name):
    module, _, member = name.partition(".") if "builtins" in name else name.rpartition(".")
    for arguments in ("args[2]", "args[2], args", "args[2], args, args"):
        start = kept.with_guard(f"%s = %s({arguments})", "v999", "C999")
        start["constants"]["C999"] = ["library", module, member]
        kept.is_miss(start)
    assert kept.args[2]["names"] == ["a", "b"]


@pytest.mark.parametrize("name", ["text_of", "same_items", "same_keys", "lacks", "same_scalar"])
def test_a_comparison_that_would_run_the_program(kept, name):
    for arguments in ("args[3]", "args[3], args", "args, args[3]", "[args[3]], [args[3]]"):
        start = kept.with_guard(f"%s = %s({arguments})", "v999", "C999")
        start["constants"]["C999"] = ["library", "jitcap.equality", name]
        kept.is_miss(start)


@pytest.mark.parametrize("method", ["update", "extend", "clear", "copy", "append", "put"])
def test_a_method_of_the_program(kept, method):
    start = kept.with_body(f"%s.{method}(args)", "v999")
    start["tables"]["shapes"].append("%s = args[3]")
    start["guards"] += f"\n{len(start['tables']['shapes']) - 1} v999"
    kept.is_miss(start)


@pytest.mark.parametrize("name", ["__getattribute__", "__setattr__", "__init__"])
def test_a_method_of_object(kept, name):
    start = kept.with_guard("%s = %s(args[3], %s)", "v999", "C999", "l0")
    start["tables"]["literals"][0] = "plain"
    start["constants"]["C999"] = ["library", "builtins", f"object.{name}"]
    kept.is_miss(start)


LINES = (
    "1000000 v9", "-1 v9", "x v9", "", " ", "0", "0 ", "0  v9", "\u0663 v1", "9" * 5000, "0.5", "1_0",
    "0x1", "0\tv1", "0\rv1", "None", "[0]",
)  # fmt: skip
HOLES = (
    "%s = %s|v999", "%s = %s|v999|v1|v1", "%s = %s|v999|os", "%s = %s|v999|v1;", "%s = %s|v999|",
    "%s = %s|v999|v\u0663", "%s = %s|v999|v12345", "%s = %s|C999|v1", "%s = %s|v999|C999",
    "%s = %s|5|v1", "%s = %s|l0|v1", "%s = %s|v999|l12345", "%s = %s|v999|m12345",
    "%s = %s|v999|m0", "%s = %s|v999|r12345", "%s = %s|v999|\"x\"", "%s = %s|v999|None",
    "%s := %s|v999|v1", "%s := args|C999", "%s := args[3]|C1", "%s = %s(args)|v999|v1",
    "%s = %s(args)|v999|l0", "%s = %s.check(0, args)|v999|v1", "%s = %s.%s|v999|v1|l0",
    "%s = %s.%s|v999|v1|v1", "%s = %s.%s|v999|v1|m12345", "%s.%s = args|v1|m0",
    "o = args|v1", "%s = args|o", "%s = args|K",
)  # fmt: skip
TABLES = (
    {"literals": [None]}, {"literals": [True]}, {"literals": [[]]}, {"literals": [["x", "y"]]},
    {"literals": [["bytes", 1]]}, {"literals": [["bytes", "\u20ac"]]}, {"literals": [{"a": 1}]},
    {"literals": [float("inf")]}, {"literals": [float("nan")]}, {"members": ["__reduce__"]},
    {"members": ["__subclasses__"]}, {"members": ["x.y"]}, {"members": ["x y"]}, {"members": [1]},
    {"members": [""]}, {"members": ["x()"]}, {"members": [None]}, {"runs": ["v1"]}, {"runs": [1]},
    {"runs": ["v1, os"]}, {"runs": ["v1, v2, "]}, {"runs": ["v1, v2; import os"]},
    {"runs": ["v1._array._x, v1"]}, {"runs": ["args[3], v1"]}, {"runs": [None]},
)  # fmt: skip


@pytest.mark.parametrize("line", LINES, ids=lambda line: repr(line[:20]))
def test_a_line_that_fills_no_shape(kept, line):
    kept.is_miss({**kept.start, "guards": f"{kept.start['guards']}\n{line}"})
    kept.is_miss({**kept.start, "body": f"{line}\n{kept.start['body']}"})


@pytest.mark.parametrize("text", HOLES)
def test_a_hole_with_something_else(kept, text):
    kept.is_miss(kept.with_guard(*text.split("|")))


@pytest.mark.parametrize("tables", TABLES, ids=repr)
def test_a_table_of_something_else(kept, tables):
    kept.is_miss(kept.with_guard("%s = args", "v999", **tables))


@pytest.mark.parametrize("field", [
    "name", "shape", "state", "roots", "found", "constants", "tables", "guards", "body",
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
    tag, name, inputs, rows, outputs = kept.rest["graph"]
    for graph in (
        [tag, name, inputs, rows],
        [tag, name, inputs + 1, rows, outputs],
        [tag, name, inputs, rows, [10**6]],
        [tag, name, inputs, rows, [-1]],
        [tag, 5, inputs, rows, outputs],
        [tag, name, inputs, [*rows, [["op", "system"], [], ["dict"], [], ["", 0, ""]]], outputs],
        [tag, name, inputs, [*rows, [["op", "neg"], [["node", 99]], ["dict"], [], ["", 0, ""]]], outputs],
        [tag, name, inputs, [*rows, [["library", "os", "system"], [], ["dict"], [], []]], outputs],
    ):  # fmt: skip
        kept.is_miss(rest={**kept.rest, "graph": graph})


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
