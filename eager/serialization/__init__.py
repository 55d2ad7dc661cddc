"""`eager.save` and `eager.load`: nested containers of tensors and plain values <-> files.

Three formats are written: that of `torch.save` (`torch_write.py`), the library's own (`own.py`) and
safetensors. All are read (`torch_zip.py`), and what PyTorch wrote before version 1.6 (`legacy.py`).
No file can run code, unless the user trusts it (`trusted.py`), and a file that is being written
takes the place of an old one only when it is whole.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle as pickle
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, cast

from eager.base.compat_warnings import ignore, warn
from eager.core.registry import public
from eager.device import device, places
from eager.serialization import legacy, own, safetensors, torch_write, torch_zip
from eager.serialization.archive import Archive
from eager.serialization.memory import Loaded, relocation
from eager.serialization.refusal import DAMAGE, LoadError, UsersError
from eager.serialization.torch_write import SaveError as SaveError
from eager.serialization.torch_zip import add_safe_globals as add_safe_globals
from eager.serialization.torch_zip import clear_safe_globals as clear_safe_globals
from eager.serialization.torch_zip import get_safe_globals as get_safe_globals
from eager.serialization.torch_zip import safe_globals as safe_globals

File = str | os.PathLike[str] | BinaryIO
DEFAULT_PROTOCOL: Final = 2  # of the pickles that `torch.save` writes; a default of programs
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | device | str | dict[str, str] | None
_FORMATS = ("torch", "eager", "safetensors")


# --------------------------------------------------------------------------------------- save
@public(method=False)
def save(
    obj: Any,
    f: File,
    *,
    format: str | None = None,
    metadata: Mapping[str, str] | None = None,
    **pickle_options: Any,
) -> None:
    """Write `obj` to a path or binary file, by default as `torch.save` does and `torch.load` reads.

    `format` is "torch" (whatever can be pickled; modules by their public names), "eager" (tensors,
    plain values and containers, as JSON) or "safetensors" (a dictionary of names and tensors, and
    `metadata` of strings), which is the default for a name that ends so. Tensors that share memory
    share it again when they are read; of a memory only what tensors use is kept. A file that exists
    is replaced when the new one is whole, and kept if the writing is interrupted. A TypeError (with
    "torch" a PicklingError, too) names what cannot be saved."""
    ignore("save", **pickle_options)
    path = Path(os.fspath(f)) if isinstance(f, str | os.PathLike) else None
    if format is None:
        format = "safetensors" if path is not None and path.suffix == ".safetensors" else "torch"
    if format not in _FORMATS:
        raise ValueError(f"eager.save: format={format!r} is none of {', '.join(_FORMATS)}")
    if metadata and format != "safetensors":
        raise ValueError(
            "eager.save: metadata= is for format='safetensors'; put it into the object"
        )

    def write(file: BinaryIO) -> None:
        if format == "safetensors":
            safetensors.write(obj, metadata, file)
        elif format == "eager":
            own.write(obj, file)
        else:
            torch_write.write(obj, file)

    if path is None:
        write(cast("BinaryIO", f))
    else:
        _replace(path, write)


def _replace(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Make a file whole beside its place, then put it there in one step."""
    path = path.resolve()  # a link stays a link
    old = path.stat() if path.exists() else None
    if old is not None and not stat.S_ISREG(old.st_mode):  # a pipe, /dev/null: nothing to keep
        whole = io.BytesIO()
        write(whole)
        path.write_bytes(whole.getvalue())
        return
    beside = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    try:
        with beside.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            beside.chmod(stat.S_IMODE(old.st_mode))
        beside.replace(path)
    except BaseException:  # an interrupt too
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


# --------------------------------------------------------------------------------------- load
@public(method=False)
def load(
    f: File,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_options: Any,
) -> Any:
    """Read what `eager.save`, `torch.save` or safetensors wrote.

    Nothing in a file is run: tensors, plain values (NumPy's, dates and paths among them) and their
    containers are read, and what `serialization.add_safe_globals` allows. With `weights_only=False`
    a file imports and calls what it likes, so a UserWarning says that it has to be trusted.
    `map_location` says where the tensors go: a device, a dictionary, or a function of a storage and
    the place where it was. With `mmap=True` the tensors of a path lie in the file, of which is read
    what is used; what is written to them stays out of it. A file that is not read is a `LoadError`
    (a RuntimeError and an UnpicklingError), which says what, where and what to do."""
    ignore("load", pickle_module=pickle_module, **pickle_options)
    trusted = weights_only is not None and not weights_only
    if trusted:
        warn(_TRUST, UserWarning)
    if mmap and not isinstance(f, str | os.PathLike):
        raise ValueError(f"eager.load: mmap=True needs a path, not a {type(f).__name__}")
    if isinstance(map_location, str | device):
        map_location = places.resolved(map_location)
    with _opened(f) as file:
        try:
            return _read(file, map_location, weights_only=not trusted, mapped=bool(mmap))
        except UsersError as error:
            raise error.error from None
        except LoadError as error:
            error.file = _name(f)
            raise
        except DAMAGE as error:
            fault = LoadError(f"{type(error).__name__}: {error!s:.200}")
            fault.file = _name(f)
            raise fault from error


_TRUST = (
    "eager.load(weights_only=False): the file can run any code, so read so only what you trust; "
    "weights_only=True reads tensors and plain values, and what add_safe_globals() allows"
)


def safetensors_metadata(f: File) -> dict[str, str]:
    """The strings that a safetensors file holds beside its tensors."""
    with _opened(f) as file:
        return dict(safetensors.read_header(file).get("__metadata__", {}))


def _name(f: File) -> str:
    return str(f if isinstance(f, str | os.PathLike) else getattr(f, "name", "the file"))


@contextlib.contextmanager
def _opened(f: File) -> Iterator[BinaryIO]:
    """A file that can be read from its beginning, wherever a user's own file stands."""
    if isinstance(f, str | os.PathLike):
        with Path(os.fspath(f)).open("rb") as file:
            yield file
        return
    position = f.tell() if f.seekable() else 0
    rest = f.read() if position or not f.seekable() else b""
    if rest or not f.seekable():
        yield io.BytesIO(rest)
    else:  # at the end stands who has just written the file
        f.seek(0)
        yield f


def _read(file: BinaryIO, map_location: Any, *, weights_only: bool, mapped: bool) -> Any:
    head = file.read(512)
    file.seek(0)
    if head[:4] == b"PK\x03\x04":
        return _read_zip(file, map_location, weights_only=weights_only, mapped=mapped)
    if mapped:
        raise LoadError("mmap=True is for files of PyTorch's format", "byte 0", "leave it out")
    if head[8:9] == b"{":
        return _on(safetensors.read(file), map_location)
    if head[:1] == b"\x80":
        return legacy.read(file, relocation(map_location), weights_only=weights_only)
    if head[257:262] == b"ustar":
        raise LoadError(
            "a tar file (of torch.save before PyTorch 0.1.10)",
            "byte 257",
            "read it with PyTorch, and torch.save it again",
        )
    raise LoadError(
        "not a file of eager.save, torch.save or safetensors",
        "byte 0",
        "check the path, and that the file is whole",
    )


def _on(tensors: dict[str, Any], map_location: Any) -> dict[str, Any]:
    """The tensors of a file that does not say where they were."""
    place = relocation(map_location)(Loaded(), "cpu").device
    return {name: tensor.to(place) for name, tensor in tensors.items()}


def _read_zip(file: BinaryIO, map_location: Any, *, weights_only: bool, mapped: bool) -> Any:
    archive = Archive(file)
    if "value.json" in archive.entries and not mapped:
        return own.read(archive, relocation(map_location))
    roots = [name[: -len("data.pkl")] for name in archive.entries if name.endswith("/data.pkl")]
    if len(roots) != 1:
        raise LoadError(
            "a zip file, but not of eager.save or torch.save",
            "the list of its entries",
            "check the path",
        )
    if f"{roots[0]}constants.pkl" in archive.entries:
        raise LoadError(
            "a TorchScript program, not values",
            f"{roots[0]}constants.pkl",
            "save the module's state_dict() with torch.save",
        )
    return torch_zip.read(archive, roots[0], map_location, weights_only=weights_only, mapped=mapped)
