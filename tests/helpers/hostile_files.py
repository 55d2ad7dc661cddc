"""Tensor files that are damaged or meant to do harm, from a seed: name -> bytes.

`spoiled` damages good files at random; `crafted_*` are files that somebody wrote on purpose, with
right checksums. All must be refused, and nothing in them may run.
"""

import argparse
import io
import json
import pickle
import pickletools
import random
import struct
import zipfile
from pathlib import Path

import numpy as np

import eager

SAMPLE = (
    Path(__file__).parents[1] / "eager" / "serialization" / "torch_2_13.pth"
)  # written by torch 2.13: see the test


# ------------------------------------------------------------------------------- good files
def own_file():
    weights = eager.arange(64.0).reshape(8, 8)
    value = {"w": weights, "t": weights.t(), "n": [1, 2.5, (None, "x")], "s": {1, 2}, "b": b"\0"}
    file = io.BytesIO()
    eager.save(value, file, format="eager")
    return file.getvalue()


def written_file():
    """What we write in PyTorch's format."""
    value = {
        "w": (weights := eager.arange(64.0)),
        "t": weights[1:],
        "p": eager.nn.Parameter(weights),
    }
    file = io.BytesIO()
    eager.save(value | {"n": [1, None, np.float64(2.5), argparse.Namespace(a=1)]}, file)
    return file.getvalue()


def safetensors_file():
    tensors = {"a": eager.arange(6.0).reshape(2, 3), "b": eager.ones(3, dtype=eager.bfloat16)}
    file = io.BytesIO()
    eager.save(tensors, file, format="safetensors")
    return file.getvalue()


GOOD = {
    "own": own_file,
    "torch": SAMPLE.read_bytes,
    "written": written_file,
    "safetensors": safetensors_file,
}


def entries(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(parts, compress=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compress) as out:
        for name, data in parts.items() if isinstance(parts, dict) else parts:
            out.writestr(name, data)
    return file.getvalue()


# --------------------------------------------------------------------------- damage at random
def spoiled(seed, count):
    """`count` files that were cut, or have bytes changed in an entry, a name or a header."""
    draw = random.Random(seed)
    good = {name: make() for name, make in GOOD.items()}
    for i in range(count):
        kind = draw.choice(sorted(good))
        data = bytearray(good[kind])
        how = draw.choice(("cut", "changed", "removed"))
        if how == "cut":
            del data[draw.randrange(1, len(data)) :]
        elif how == "removed":
            start = draw.randrange(len(data) - 8)
            del data[start : start + draw.randrange(1, 8)]
        else:
            start, end = draw.choice(_checked_parts(kind, bytes(data)))
            at = draw.randrange(start, end)
            data[at] ^= draw.randrange(1, 256)
        yield f"{kind} {how} {i}", bytes(data)


def _checked_parts(kind, data):
    """Where a format can see a changed byte: in a zip, what an entry's checksum covers."""
    if kind == "safetensors":
        return [(0, 8)]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = []
        for entry in archive.infolist():
            if (
                "serialization_id" in entry.filename
                or entry.filename.count("/.")
                or not (
                    entry.filename.endswith(("data.pkl", ".json", ".npy"))
                    or "/data/" in entry.filename
                )
            ):
                continue  # not read
            name, extra = struct.unpack_from("<HH", data, entry.header_offset + 26)
            start = entry.header_offset + 30 + name + extra
            parts.append((start, start + entry.file_size))
        return parts


# ------------------------------------------------------------------------- pickles that attack
def torch_file(program, storages=None, **more):
    """A file as torch.save writes it, around the bytes of a pickle."""
    parts = {"archive/data.pkl": program, "archive/byteorder": b"little"}
    parts |= {f"archive/data/{key}": data for key, data in (storages or {"0": bytes(16)}).items()}
    return zipped(parts | {f"archive/{key}": data for key, data in more.items()})


P, S = b"\x80\x02", b"."


def word(text):
    return b"X" + struct.pack("<I", len(text.encode())) + text.encode()


def number(n):
    return b"J" + struct.pack("<i", n)


def tuple_of(*parts):
    return b"(" + b"".join(parts) + b"t"


def name(module, attribute):
    return f"c{module}\n{attribute}\n".encode()


def call(module, attribute, *args):
    return name(module, attribute) + tuple_of(*args) + b"R"


FLOATS, KEY, HOST, FOUR, ZERO = (
    name("torch", "FloatStorage"), word("0"), word("cpu"), number(4), number(0),
)  # fmt: skip


def storage(kind=FLOATS, key=KEY, where=HOST, count=FOUR):
    return tuple_of(word("storage"), kind, key, where, count) + b"Q"


def tensor(place=None, offset=ZERO, size=None, stride=None, hooks=None, grad=b"\x89"):
    return call(
        "torch._utils", "_rebuild_tensor_v2", place or storage(), offset,
        size or tuple_of(number(4)), stride or tuple_of(number(1)), grad,
        hooks or call("collections", "OrderedDict"),
    )  # fmt: skip


FORBIDDEN = (
    ("os", "system"), ("posix", "system"), ("nt", "system"), ("os", "execv"), ("os", "remove"),
    ("subprocess", "Popen"), ("subprocess", "check_output"), ("builtins", "eval"),
    ("builtins", "exec"), ("builtins", "open"), ("builtins", "getattr"), ("builtins", "__import__"),
    ("builtins", "compile"), ("builtins", "print"), ("builtins", "input"), ("builtins", "type"),
    ("__builtin__", "eval"), ("__builtin__", "execfile"), ("importlib", "import_module"),
    ("runpy", "run_path"), ("pickle", "loads"), ("marshal", "loads"), ("ctypes", "CDLL"),
    ("webbrowser", "open"), ("shutil", "rmtree"), ("pty", "spawn"), ("code", "interact"),
    ("torch", "load"), ("torch.hub", "load"), ("torch.serialization", "load"),
    ("torch", "os.system"), ("torch.utils.cpp_extension", "load"), ("torch._utils", "eval"),
    ("numpy", "load"), ("numpy._core.multiarray", "_reconstruct"), ("numpy", "ndarray"),
    ("eager", "load"), ("eager.serialization", "add_safe_globals"), ("functools", "partial"),
    ("operator", "attrgetter"), ("operator", "methodcaller"), ("types", "CodeType"),
    ("types", "FunctionType"), ("copyreg", "_reconstructor"), ("_codecs", "lookup"),
    ("codecs", "decode"), ("io", "open"), ("pathlib", "os.system"), ("tempfile", "mkstemp"),
    ("torch", "nonexistent"), ("", ""),
)  # fmt: skip


def crafted_pickles():
    touch = word("touch /tmp/attacked")
    for module, attribute in FORBIDDEN:
        yield f"calls {module}.{attribute}", P + call(module, attribute, touch) + S
    for module, attribute in FORBIDDEN[:12]:
        pushed = b"\x8c" + bytes([len(module)]) + module.encode()
        pushed += b"\x8c" + bytes([len(attribute)]) + attribute.encode()
        yield f"protocol 4: {module}.{attribute}", b"\x80\x04" + pushed + b"\x93\x8c\x01x\x85R" + S
        yield f"makes {module}.{attribute}", P + name(module, attribute) + b")\x81" + S
    yield "INST", b"(X\x02\0\0\0idios\nsystem\n."
    yield "OBJ", P + b"(" + name("os", "system") + word("id") + b"o."
    yield "EXT1", P + b"\x82\x01."
    yield "NEWOBJ_EX", b"\x80\x04" + name("os", "system") + b")}\x92."
    yield "PERSID", P + b"P/etc/passwd\n."
    yield "a buffer from outside", b"\x80\x05\x97."
    yield "calls a string", P + word("os.system") + tuple_of(word("id")) + b"R."
    yield "calls a dtype", P + name("torch", "float32") + b")R."
    yield "calls a storage type", P + name("torch", "FloatStorage") + b")R."
    yield "arguments in a list", P + name("collections", "OrderedDict") + b"]R."
    yield "encodes by a codec", P + call("_codecs", "encode", word("x"), word("zlib_codec")) + S
    yield "many zeros", P + call("builtins", "bytearray", number(2**31 - 1)) + S
    yield "state of a list", P + b"]" + b"}" + word("__class__") + word("x") + b"sb."
    yield "state of a tensor", P + tensor() + b"}" + word("_array") + b"Nsb."
    for hidden in ("items", "__class__", "keys"):
        made = call("collections", "OrderedDict") + b"}" + word(hidden) + word("x")
        yield f"hides {hidden}", P + made + b"sb."
    yield from crafted_tensors()
    yield "nothing", b""
    yield "no end", P + b"]"
    yield "two values", P + b"]]."
    yield "an unknown instruction", P + b"\xff."
    yield "not memorised", P + b"h\x07."
    yield "no mark", P + b"e."
    yield "an empty stack", P + b"R."
    yield "appends to a tuple", P + b")K\x01a."
    yield "items of a list", P + b"]K\x01K\x02s."
    yield "members of a list", b"\x80\x04](K\x01\x90."
    yield "a list as a key", P + b"}]K\x01s."
    yield "an odd number of items", P + b"}(K\x01u."
    yield "a long string", P + b"X\xff\xff\xff\xffabc."
    yield "text that is none", P + b"X\x02\0\0\0\xff\xfe."
    pairs = b"".join(
        b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(60)
    )
    yield "a key of 2**60 parts", P + b"}" + b"K\x01q\0" + pairs + b"K\x01s."
    yield "a deep key", P + b"}" + b")" + b"\x85" * 200_000 + b"K\x01s."
    yield "a deep member", P + name("builtins", "set") + b"])" + b"\x85" * 200_000 + b"a\x85R."


def crafted_tensors():
    one = tuple_of(number(1))
    yield "outside", P + tensor(size=tuple_of(number(5))) + S
    yield "far outside", P + tensor(offset=number(2**31 - 1)) + S
    yield "before", P + tensor(offset=number(-1)) + S
    yield "backwards", P + tensor(stride=tuple_of(number(-1))) + S
    yield "a negative size", P + tensor(size=tuple_of(number(-4))) + S
    yield (
        "many sizes",
        P + tensor(size=tuple_of(*[number(1)] * 99), stride=tuple_of(*[number(1)] * 99)) + S,
    )
    yield "fewer strides", P + tensor(size=tuple_of(number(2), number(2)), stride=one) + S
    yield "a size of text", P + tensor(size=tuple_of(word("4"))) + S
    yield "a size that is true", P + tensor(size=tuple_of(b"\x88"), stride=one) + S
    yield "a size that is a number", P + tensor(size=number(4)) + S
    yield (
        "a product past 64 bits",
        P + tensor(size=tuple_of(*[number(2**31 - 1)] * 4), stride=tuple_of(*[number(1)] * 4)) + S,
    )
    yield "hooks", P + tensor(hooks=b"]K\x01a") + S
    yield "no storage", P + tensor(place=word("0")) + S
    yield "a missing storage", P + tensor(storage(key=word("7"))) + S
    yield "a path for a storage", P + tensor(storage(key=word("../../../etc/passwd"))) + S
    yield "a list for a storage", P + tensor(storage(key=b"]")) + S
    yield "a larger storage", P + tensor(storage(count=number(40))) + S
    yield "a smaller storage", P + tensor(storage(count=number(1)), size=one) + S
    yield "another kind of storage", P + tensor(storage(kind=name("torch", "float32"))) + S
    yield "a storage of no name", P + tuple_of(word("module"), b"N", b"N", b"N", b"N") + b"Q."
    yield "a storage of text", P + word("storage") + b"Q."
    yield "a storage elsewhere", P + tensor(storage(where=word("cuda:0"))) + S
    yield "a storage nowhere", P + tensor(storage(where=word("moon"))) + S
    for dtype in ("uint16", "float8_e4m3fn", "qint8", "complex32"):
        yield f"dtype {dtype}", P + name("torch", dtype) + S
    for kind in ("_rebuild_sparse_tensor", "_rebuild_qtensor", "_rebuild_nested_tensor"):
        yield kind, P + call("torch._utils", kind) + S
    yield (
        "a gradient of ints",
        P + tensor(storage(kind=name("torch", "IntStorage")), grad=b"\x88") + S,
    )
    yield (
        "a parameter of text",
        P + call("torch._utils", "_rebuild_parameter", word("x"), b"\x88", b")") + S,
    )
    whole = tensor() + b"\x88" + b")"
    for hidden in ("_array", "_storage", "grad", "__class__"):
        state = b"}" + word(hidden) + word("x") + b"s"
        yield (
            f"a parameter's {hidden}",
            P + call("torch._utils", "_rebuild_parameter_with_state", whole, state) + S,
        )
    inner = name("torch._utils", "_rebuild_tensor_v2")
    for cls in (name("os", "system"), name("torch", "Size"), word("Tensor")):
        yield (
            "a tensor of another class",
            P + call("torch._tensor", "_rebuild_from_type_v2", inner, cls, b")", b"}") + S,
        )
    yield (
        "a tensor made by another",
        P
        + call(
            "torch._tensor", "_rebuild_from_type_v2", word("f"), name("torch", "Tensor"), b")", b"}"
        )
        + S,
    )


# ----------------------------------------------------------------- zips, JSON, safetensors
def crafted_zips():
    good = entries(SAMPLE.read_bytes())
    one = P + b"]."
    yield "compressed", zipped(good, zipfile.ZIP_DEFLATED)
    yield "a bomb", zipped({"a/data.pkl": one, "a/data/0": bytes(10_000_000)}, zipfile.ZIP_BZIP2)
    yield "two of a name", _twice("a/data.pkl", one)
    yield "two folders", zipped({"a/data.pkl": one, "b/data.pkl": one})
    yield "no values", zipped({"a/readme": b"x"})
    yield "nothing in it", zipped({})
    yield "a program", torch_file(one, **{"constants.pkl": one, "code/x.py": b"print()"})
    yield "a byte order", torch_file(P + tensor() + S).replace(b"little", b"middle")
    yield (
        "a byte order of its own",
        zipped({"a/data.pkl": P + tensor() + S, "a/byteorder": b"mixed", "a/data/0": bytes(16)}),
    )
    yield "a bare pickle", pickle.dumps([1])
    yield "an old torch file", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."
    yield "text", b"import os"
    yield "empty", b""
    yield "one byte", b"P"
    yield "a picture", b"\x89PNG\r\n\x1a\n" + bytes(40)


def _twice(entry, data):
    """A zip with one name twice (`zipfile` warns when it writes one, so names are exchanged)."""
    other = entry[:-1] + "?"
    return zipped([(entry, data), (other, data)]).replace(other.encode(), entry.encode())


def crafted_own():
    """The value of our own format with one thing in it replaced."""
    parts = entries(own_file())
    head = json.loads(parts["value.json"])
    wrong = (
        None,
        -1,
        10**30,
        1.5,
        "x",
        [],
        {},
        [1, 2],
        {"kind": "list"},
        {"kind": "exec", "of": "1"},
        True,
    )
    for i, (path, value) in enumerate(_places(head, ())):
        for other in wrong[i % 3 :: 3]:
            if type(other) is type(value) or _harmless(path, value, other):
                continue
            changed = json.loads(parts["value.json"])
            _set(changed, path, other)
            data = json.dumps(changed).encode()
            yield f"{path}: {value!r:.30} -> {other!r}", zipped(parts | {"value.json": data})
    for text in (b"", b"[", b"[" * 100_000, b"{}", b"1", b'{"format": 3, "value": 1}', b"\xff"):
        yield f"json {text[:9]!r}", zipped(parts | {"value.json": text})
    deep = b'{"format": 2, "value": ' + b'{"kind": "list", "of": [' * 5000 + b"]}" * 5000 + b"}"
    yield "json deep", zipped(parts | {"value.json": deep})
    for npy in (b"", b"\x93NUMPY", pickle.dumps([1]), b"\x93NUMPY\x01\x00" + b"x" * 200):
        yield f"npy {npy[:9]!r}", zipped(parts | {"memory/0.npy": npy})
    objects = parts["memory/0.npy"].replace(b"'|u1'", b"'|O' ")
    yield "npy of objects", zipped(parts | {"memory/0.npy": objects})
    evaluated = parts["memory/0.npy"].replace(b"(256,)", b"exit()")
    yield "npy that calls", zipped(parts | {"memory/0.npy": evaluated})


def _places(value, path):
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _places(item, (*path, i))


def _set(value, path, other):
    for key in path[:-1]:
        value = value[key]
    if path:
        value[path[-1]] = other
    else:
        value.clear()


def _harmless(path, value, other):
    """Another value that the format may hold there, or a flag that is true in another way."""
    plain = (str, int, type(None))
    return (
        not path
        or path[-1] in ("requires_grad", "parameter", "attributes")
        or (path[-1] != "kind" and isinstance(other, plain) and not isinstance(path[-1], str))
        or (path == ("value",) and isinstance(other, plain))
        or path[-1] == "of"
        and other in ([], "x", {})
        or (path[-1] in ("strides", "shape") and other == [])
        or (path[-1] == "format" and other is True)
    )


def crafted_safetensors():
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}

    def made(header, data=bytes(8)):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + data

    for key, others in {
        "dtype": ("F31", "U16", "F8_E4M3", "", 1, None, ["F32"]),
        "shape": ([3], [-2], [2.0], ["2"], [True, 2], 2, None, [2**62, 2**62], {}),
        "data_offsets": (
            [0, 9],
            [1, 9],
            [8, 0],
            [0, 7],
            [-8, 0],
            [0],
            [0, 8, 9],
            None,
            ["0", "8"],
            [0.0, 8.0],
        ),
    }.items():
        for other in others:
            yield f"safetensors {key} {other}", made({"a": entry | {key: other}})
    yield "safetensors: more bytes", made({"a": entry}, bytes(9))
    yield "safetensors: fewer bytes", made({"a": entry}, bytes(7))
    yield (
        "safetensors: a hole",
        made({"a": entry, "b": entry | {"data_offsets": [12, 20]}}, bytes(20)),
    )
    yield "safetensors: twice the bytes", made({"a": entry, "b": entry})
    yield "safetensors: twice a name", made(b'{"a": 1, "a": 2}')
    yield "safetensors: an entry of text", made({"a": "b"})
    yield "safetensors: more in an entry", made({"a": entry | {"run": "x"}})
    yield "safetensors: metadata of numbers", made({"__metadata__": {"a": 1}, "a": entry})
    yield "safetensors: metadata of text", made({"__metadata__": "a", "a": entry})
    yield "safetensors: deep", made(b'{"a":' * 100_000)
    yield "safetensors: a long header", b"\xff" * 7 + b"\x7f{"
    yield "safetensors: not text", made(b"{\xff\xfe}")


def mutants(seed, count):
    """Good pickles with bytes changed and the checksum right: some can still be read."""
    draw = random.Random(seed)
    parts = entries(SAMPLE.read_bytes())
    key = next(k for k in parts if k.endswith("data.pkl"))
    starts = [at for _, _, at in pickletools.genops(parts[key])]
    for i in range(count):
        data = bytearray(parts[key])
        for _ in range(draw.randrange(1, 4)):
            at = draw.choice(starts) if draw.random() < 0.7 else draw.randrange(len(data))
            data[at] = (
                draw.choice(b"cRb\x81Qtq.(]}ush\x85\x86\x93\x92io\x82P")
                if draw.random() < 0.7
                else draw.randrange(256)
            )
        yield f"mutant {i}", zipped(parts | {key: bytes(data)})
