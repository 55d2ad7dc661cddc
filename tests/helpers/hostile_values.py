"""More files that are meant to do harm: values of NumPy and Python's library, and PyTorch's old format.
name -> bytes of a pickle, or of a file.
"""

import inspect
import io

from hostile_files import (
    FLOATS,
    HOST,
    KEY,
    P,
    S,
    call,
    name,
    number,
    storage,
    tensor,
    torch_file,
    tuple_of,
    word,
)

import eager


def read(program):
    return eager.load(io.BytesIO(torch_file(program)))


def crafted_values():
    """Values of Python's library and of NumPy with parts that they cannot have."""
    many = call("builtins", "range", number(2**31 - 1))
    member = read(P + call("inspect", "_ParameterKind", number(1)) + S)
    assert (len(read(P + many + S)), member) == (2**31 - 1, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    for module, kind in (
        ("builtins", "set"), ("builtins", "frozenset"), ("collections", "deque"), ("torch", "Size"),
        ("collections", "OrderedDict"), ("collections", "Counter"), ("builtins", "bytearray"),
    ):  # fmt: skip
        yield f"{kind} of a long range", P + call(module, kind, many) + S
    yield "a list of a long range", P + call("builtins", "list", many) + S
    yield "a list without its maker", P + name("builtins", "list") + tuple_of(many) + b"\x81."
    yield "a range of text", P + call("builtins", "range", word("9")) + S
    yield "a slice of a list", P + call("builtins", "slice", b"]") + S
    for text in ("1e999999999", "1/0", "x", "1/2/0"):
        yield f"Fraction {text}", P + call("fractions", "Fraction", word(text)) + S
    yield "Decimal", P + call("decimal", "Decimal", word("x")) + S
    yield "a path of numbers", P + call("pathlib", "PosixPath", number(1)) + S
    raw = call("_codecs", "encode", word("\xff" * 4), word("latin1"))
    yield "a day that is none", P + call("datetime", "date", raw) + S
    long = call("_codecs", "encode", word("\xff" * 10), word("latin1"))
    yield "an hour that is none", P + call("datetime", "datetime", long) + S
    yield "a day of text", P + call("datetime", "date", word("2024")) + S
    yield "a zone of a number", P + call("datetime", "timezone", number(5)) + S
    yield "a span of ages", P + call("datetime", "timedelta", number(2**31 - 1)) + S
    new = name("uuid", "UUID") + b")\x81"
    for state in (b"]", b"}" + word("int") + word("x") + b"s", b"}" + word("__class__") + b"Ns"):
        yield f"a UUID of {state!r}", P + new + state + b"b."
    for state in (b"]K\x01a", b"}" + word("__class__") + b"Ns", b"}K\x01Ns"):
        yield (
            f"a Namespace of {state!r}",
            P + name("argparse", "Namespace") + b")\x81" + state + b"b.",
        )
    for module, maker in (
        ("os", "system"),
        ("torch._utils", "_rebuild_tensor_v2"),
        ("numpy", "dtype"),
    ):
        made = name("collections", "defaultdict") + b"(" + name(module, maker) + b"tR"
        yield f"a defaultdict of {maker}", P + made + S
    yield "no member", P + call("inspect", "_ParameterKind", number(99)) + S
    yield "an Enum that is not imported", P + call("tkinter", "EventType", word("2")) + S
    yield "no Enum", P + call("inspect", "Parameter", word("x")) + S
    yield from crafted_arrays()


def crafted_arrays():
    four = call("_codecs", "encode", word("abcd"), word("latin1"))

    plain = b"(K\x03" + word("<") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"

    def dtype(code, state=plain):
        return call("numpy", "dtype", word(code), b"\x89", b"\x88") + state

    begun = call("numpy._core.multiarray", "_reconstruct", name("numpy", "ndarray"),
                 tuple_of(number(0)), word("b"))  # fmt: skip

    def array(shape, of=None, raw=four, again=b""):
        state = tuple_of(number(1), shape, of or dtype("i1"), b"\x89", raw) + b"b"
        return P + begun + state + again + S

    assert read(array(tuple_of(number(2), number(2)))).tolist() == [[97, 98], [99, 100]]
    for code in ("O", "V4", "i4,O", "object", "f4(2,)", "x", "i999", "U9999999999"):
        yield f"dtype {code}", P + dtype(code) + S
    fields = b"(K\x03" + word("<") + b"N(" + word("a") + b"t}K\x04K\x04K\0tb"
    for state in (b"]b", b")b", fields, b"(K\x03" + word("x") + b"NNNK\0K\0K\0tb",
                  b"(K\x03" + word("<") + b"NNNK\x63K\x01K\0tb"):  # fmt: skip
        yield f"dtype of {state!r:.40}", P + dtype("i4", state) + S
    yield "an array of too many", array(tuple_of(number(2**31 - 1)))
    yield "a product past 64 bits", array(tuple_of(*[number(2**31 - 1)] * 4))
    yield "an array of fewer", array(tuple_of(number(3)))
    yield "an array of minus", array(tuple_of(number(-4)))
    yield "an array of no shape", array(number(4))
    yield "an array of empty texts", array(tuple_of(number(2**31 - 1)), dtype("U0"))
    yield "an array of a list", array(tuple_of(number(1)), raw=b"]Na")
    yield "an array of no dtype", array(tuple_of(number(4)), word("i1"))
    yield (
        "an array twice",
        array(
            tuple_of(number(4)),
            again=tuple_of(number(1), tuple_of(number(4)), dtype("i1"), b"\x89", four) + b"b",
        ),
    )
    for cls in (name("numpy", "float32"), name("builtins", "list"), word("ndarray")):
        made = call("numpy._core.multiarray", "_reconstruct", cls, tuple_of(number(0)), word("b"))
        yield f"an array of {cls!r:.30}", P + made + S
    yield (
        "a number of fewer bytes",
        P + call("numpy._core.multiarray", "scalar", dtype("f8"), four) + S,
    )
    yield "a number of no dtype", P + call("numpy._core.multiarray", "scalar", word("f4"), four) + S
    yield "calls a number's type", P + call("numpy", "float64", number(1)) + S
    yield "a buffer", P + call("numpy._core.numeric", "_frombuffer", four, dtype("i1"),
                               tuple_of(number(9)), word("C")) + S  # fmt: skip
    layout = call("torch.serialization", "_get_layout", word("torch.sparse_coo"))
    ints = storage(name("torch", "LongStorage"), count=number(2))
    for parts in (
        (tensor(ints, size=tuple_of(number(1), number(1)), stride=tuple_of(number(1), number(1))),
         tensor(size=tuple_of(number(1))), tuple_of(number(0))),
        (number(1), tensor(), tuple_of(number(4))), (tensor(), tensor()), (),
    ):  # fmt: skip
        made = call("torch._utils", "_rebuild_sparse_tensor", layout, tuple_of(*parts))
        yield f"sparse of {len(parts)} parts", P + made + S


def old_file(value, storages=(), magic=None, version=1001):
    """As torch.save wrote it before version 1.6."""
    magic = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19" if magic is None else magic
    system = b"}" + word("little_endian") + b"\x88s"
    keys = b"](" + b"".join(word(key) for key, _ in storages) + b"e"
    head = [magic, number(version), system, value, keys]
    return b"".join(P + part + S for part in head) + b"".join(data for _, data in storages)


def old_tensor(count=4, view=b"N", kind=FLOATS):
    return tensor(tuple_of(word("storage"), kind, KEY, HOST, number(count), view) + b"Q")


def crafted_old():
    data = (4).to_bytes(8, "little") + bytes(16)
    good = old_file(old_tensor(), [("0", data)])
    eager.load(io.BytesIO(good))  # what is made wrong below
    for cut in (1, 8, 20, 60, len(good) - 30, len(good) - 1):
        yield f"cut at {cut}", good[:cut]
    yield "another magic number", old_file(old_tensor(), [("0", data)], magic=number(7))
    yield "another version", old_file(old_tensor(), [("0", data)], version=1)
    yield "a large storage", old_file(old_tensor(2**31 - 1), [("0", data)])
    yield "another size", old_file(old_tensor(5), [("0", data)])
    yield "another key", old_file(old_tensor(), [("1", data)])
    yield "a missing storage", old_file(old_tensor())
    yield "a storage twice", old_file(old_tensor(), [("0", data), ("0", data)])
    yield (
        "a view outside",
        old_file(old_tensor(view=tuple_of(word("v"), number(3), number(2))), [("0", data)]),
    )
    yield (
        "a view before",
        old_file(old_tensor(view=tuple_of(word("v"), number(-1), number(2))), [("0", data)]),
    )
    yield "a view of text", old_file(old_tensor(view=word("v")), [("0", data)])
    yield "a kind of storage", old_file(old_tensor(kind=name("torch", "float32")), [("0", data)])
    yield "a module", old_file(tuple_of(word("module"), b"N", b"N", b"N") + b"Q")
    yield "calls os.system", old_file(call("os", "system", word("touch /tmp/attacked")))
    yield "a long text", P + b"\x8d" + bytes(7) + b"\x40" + b"abc."
    yield "a long number", P + b"\x8b\xff\xff\xff\x7f1."
    yield "a tar file", bytes(257) + b"ustar" + bytes(300)
