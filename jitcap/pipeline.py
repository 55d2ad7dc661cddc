"""Read this first: the compiler, every stage in order. A call that no version fits -> Compiled.

    capture     jitcap/capture/         bytecode -> Graph, guards, effects
    (trace      jitcap/by_dispatch/     the same without bytecode, on a CPython that is not known)
    autodiff    jitcap/autodiff/        tape -> joint Graph, if gradients can be asked for later
    partition   jitcap/graph/partition.py      joint Graph -> forward, backward
    passes      jitcap/passes/          Graph -> Graph
    (cut        jitcap/graph/cut_by_size.py    Graph -> Graphs, where data decide sizes)
    (cut        jitcap/graph/cut_by_device.py  Graph -> the host's and the devices')
    lower       jitcap/compile/lower.py        Graph -> Program
    codegen     codegen/                Program -> loops -> kernels -> source -> Artifact
    entry       jitcap/capture/result.py       guards + Artifact -> the guarded call

`jitcap/entry.py` holds the versions of a function, and comes here when none fits a call. What is
made is kept on disk, compiled graphs and whole versions (`jitcap/store/`), so that another process
captures and compiles nothing. A backward is compiled when it first runs. With `mode="background"`
all between capture and entry is done beside the program (`jitcap/background.py`): `make` asks
nothing of it.

Autodiff has its turn in `capture` (`finish`), while the tape and what it may ask of outside are
there: an attempt whose derivative is refused does not stand, and hooks are read from bytecode, too.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from types import CodeType
from typing import Any, Final, TypeVar

from codegen.runtime import beside, progress
from eager.base import lazy_imports
from eager.base.config import config
from eager.base.dataclass import dataclass
from jitcap.autodiff.compiled_function import Region
from jitcap.autodiff.joint import Joint
from jitcap.base.breaks import REPORT, Break, Record
from jitcap.base.call_policy import name_of
from jitcap.base.diagnostics import Trail, announce, note_fault
from jitcap.base.garbage import collection_paused
from jitcap.base.later import BACKGROUND, Meanwhile, is_alone
from jitcap.base.module_path import readable
from jitcap.base.origin import APART
from jitcap.base.short_names import short_names
from jitcap.capture import bytecode
from jitcap.capture.capture import capture, search
from jitcap.capture.result import Captured, link, require_fit
from jitcap.capture.sizes import DATA, is_size
from jitcap.compile.anticipate import anticipated
from jitcap.compile.backends import choose_backend
from jitcap.compile.compile_graph import begin_code, compile_graph
from jitcap.compile.executable import Executable, Run, op_by_op
from jitcap.compile.optimise import optimise
from jitcap.compile.suspect import Suspect, SuspectCall
from jitcap.explain import dump_page
from jitcap.graph.cut_by_device import places_of
from jitcap.graph.graph import Graph
from jitcap.graph.listing import listing
from jitcap.store import versions
from jitcap.versions.plain import Plain, Whole
from jitcap.versions.version import MISS, Call, Compiled, Options, Suspects

SUSPECT: Final = "__jitcap_suspect__"  # attribute of an exception of the compiler
T = TypeVar("T")
Keep = Callable[[Captured, bool], versions.Files]  # of a captured version (with its graph?)


@dataclass(frozen=True, slots=True)
class Front:
    """The way from a call to its graph. `search` gives all places that cannot be captured; `parts`
    says whether a part of a function can be, and the whole be kept on disk."""

    capture: Callable[..., Captured]
    search: Callable[..., tuple[Record, ...]]
    parts: bool


def _trace(*args: Any, **kwargs: Any) -> Captured:
    found: Captured = lazy_imports.submodule("jitcap", "by_dispatch").trace(*args, **kwargs)
    return found


BY_BYTECODE: Final = Front(capture, search, parts=True)
BY_DISPATCH: Final = Front(_trace, lambda *_: (), parts=False)  # ends at its first refusal


def front() -> Front:
    """The way of this CPython."""
    return BY_BYTECODE if bytecode.is_known() else BY_DISPATCH


def everything(
    first: Record, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Break:
    """A refusal of this call, with all others that there are, as one error."""
    found = {record.place: record for record in (*front().search(fn, args, kwargs), first)}
    places = sorted(found, key=lambda p: (p.file != first.place.file, p.file, p.line, p.column))
    return Break.of(*map(found.__getitem__, places))


def compile_call(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    varying: frozenset[str] = frozenset(),
    unsafe: frozenset[str] = frozenset(),
    keep: Keep | None = None,
) -> Compiled:
    """The whole road for one call. Runs nothing. Raises what `capture_call` raises; `keep` as in
    `compile_captured`."""

    def rest(captured: Captured, trail: Trail, plain: Whole) -> Compiled:
        return compile_captured(captured, options, trail, plain, keep)

    return capture_call(fn, args, kwargs, options, varying, unsafe, rest)


def capture_call(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    varying: frozenset[str],
    unsafe: frozenset[str],
    rest: Callable[[Captured, Trail, Whole], T],
    without: Container[frozenset[str]] = (),
) -> T:
    """Capture one call, and give it to the `rest` of the road.

    Sizes among `varying` are symbols where that compiles, else what they are now, and a size that
    data decide splits; such sets of them as are in `without` are known not to compile. `unsafe`:
    lines that are not captured. Raises Break when the program cannot be captured.
    """
    static = frozenset(name for name in varying if not is_size(name))
    together = frozenset(name for name in varying if not name.startswith(APART))
    ways = dict.fromkeys((varying, varying - {DATA}, together))
    first: Exception | None = None
    way = front()
    try:
        for names in (*(x for x in ways if x != static and x not in without), static):
            trail = Trail(name_of(fn))
            try:
                with collection_paused(), progress.shown(trail.name):
                    with (
                        trail.stage("capture"),
                        anticipated(options.backend),
                        blamed_call(fn, args, kwargs, options),
                    ):
                        captured = way.capture(fn, args, kwargs, dynamic=names, unsafe=unsafe)
                    require_fit(captured, names, args, kwargs)
                    return rest(captured, trail, Whole(fn, names, way.capture))
            except Exception as refusal:
                if names is static:
                    if first is not None and _is_of_data(first) and _is_of_data(refusal):
                        raise first from refusal  # what is asked of a size, not that there is one
                    raise
                first = first or refusal
                note_fault(trail.name, refusal)
    finally:
        first = None  # whose traceback leads back to this frame
    raise AssertionError("the last way returns or raises")


def _is_of_data(refusal: Exception) -> bool:
    return isinstance(refusal, Break) and refusal.kind == "data dependent"


def compile_captured(
    captured: Captured,
    options: Options,
    trail: Trail,
    plain: Plain | None = None,
    keep: Keep | None = None,
) -> Compiled:
    """The road of a captured function, or of a part of one, from there on. `plain` is what
    `verify=True` compares with; `keep` makes ready what is kept on disk, while the C++ compiler
    runs."""
    code: CodeType | None = None
    files: versions.Files | None = None

    def meanwhile(waits: bool) -> None:
        nonlocal code, files
        with trail.stage("entry"):
            if not options.verify or plain is None:
                code = captured.code()
            if code is not None and keep is not None and waits:
                files = keep(captured, False)

    prepare(captured, options)
    made = make(captured, options, trail, meanwhile)
    return finish(captured, made, options, trail, plain, code, files)


def prepare(captured: Captured, options: Options) -> None:
    """Make a captured call ready for `make`. Raises Break where values would be looked at that the
    host cannot reach."""
    _require_host(captured.graph, options)
    _name_inputs(captured)


@dataclass(frozen=True, slots=True)
class Made:
    """Compiled graphs of a captured call; `suspect` is looked at for a fault."""

    executable: Executable
    run: Run
    region: Region | None
    suspect: Suspect


def make(
    captured: Captured,
    options: Options,
    trail: Trail,
    meanwhile: Callable[[bool], object] = lambda _: None,
) -> Made:
    """Compile the graphs of a captured call. This asks nothing of the program. `meanwhile` is
    called when the C++ compiler was begun, if there is something to wait for (True) or not."""
    graph, region = captured.graph, None
    trail.notes += captured.rolled
    if captured.joint is not None:
        joint = captured.joint
        trail.keep("joint", lambda: listing(joint.graph), made=joint.graph)
        with trail.stage("partition"):
            region = region_of(options, joint, captured.writes, trail)
            graph = region.forward
    suspect = Suspect(graph, None, captured.writes, captured.strides, backend_of(graph, options))
    with blamed(suspect):
        optimised = optimise(graph, trail, options.backend)
        with begin_code(
            optimised, captured.writes, captured.strides, trail, options.backend
        ) as begun:
            meanwhile(begun.waits)
            executable = begun.result()
    return Made(executable, watched(executable.run, suspect, options, trail.name), region, suspect)


def finish(
    captured: Captured,
    made: Made,
    options: Options,
    trail: Trail,
    plain: Plain | None = None,
    code: CodeType | None = None,
    files: versions.Files | None = None,
) -> Compiled:
    """The version of a captured call whose graphs are compiled. `code` of its entry and `files`,
    if they were made already."""
    call: Call
    with trail.stage("entry"):
        if options.verify and plain is not None:
            trials = replace(options, watch=None)  # they are no calls of the program
            compiler = _backward_compiler(trials, Trail("verify"))
            differs = options.watch.differs if options.watch is not None else reproduced
            region, suspect = made.region, made.suspect
            verified = lazy_imports.submodule("jitcap", "verify").Verified
            call = verified(captured, made.run, region, plain, compiler, suspect, differs)
        else:
            code = code or captured.code()
            call = link(code, captured.names.namespace, made.run, MISS, made.region)
    trail.keep("entry", captured.show)
    compiled = Compiled(call, captured, made.executable, trail, captured.graph, files=files)
    if config.dump:
        trail.write_page = partial(dump_page, compiled)
        trail.write_page()
    return compiled


def region_of(
    options: Options, joint: Joint, writes: tuple[tuple[int, int], ...], trail: Trail
) -> Region:
    """The joint graph, to be cut in two; its backward is compiled as `options` say."""
    in_background = options.mode == BACKGROUND
    return Region(joint, writes, _backward_compiler(options, trail, in_background=in_background))


def _backward_compiler(
    options: Options, trail: Trail, *, in_background: bool = False
) -> Callable[[Graph], Run]:
    """Compiler of a region's backward, which runs when the backward is first asked for. Beside the
    program, the backward runs op by op until it is compiled."""

    def compiled(graph: Graph) -> tuple[Executable, Suspect]:
        suspect = Suspect(graph, None, (), None, backend_of(graph, options))
        try:
            with progress.shown(f"{trail.name} (backward)"), blamed(suspect):
                made = compile_graph(
                    graph, backend=options.backend, trail=trail, prefix="backward_"
                )
                return made, suspect
        except Exception as fault:
            again = isinstance(fault, RecursionError) and beside.is_here()
            if again or config.strict or config.check or graph.has_symbols:
                raise
            refused = f"compiling it failed: {type(fault).__name__}: {fault}"
            what = f"the backward of {trail.name} runs op by op: {refused}; {REPORT}"
            announce((trail.name, refused), what)
            return Executable(op_by_op(graph, ()), "eager", refused=refused), suspect

    def taken(found: tuple[Executable, Suspect]) -> Run:
        (made, suspect), stats = found, trail.stats
        if stats is not None:
            stats.callbacks += len(made.callbacks)
            stats.programs.extend(made.runs)
            if made.refused:
                stats.fallbacks += 1
                stats.refusals.append(f"backward of {trail.name}: {made.refused}")
        if trail.write_page is not None:
            trail.write_page()
        return watched(made.run, suspect, options, f"backward of {trail.name}")

    def compile_backward(graph: Graph) -> Run:
        sized = graph.has_symbols  # what compiling it asks is of this call
        if not in_background or sized or places_of(graph) or not is_alone():
            return taken(compiled(graph))
        tasks = trail.stats.tasks if trail.stats is not None else []
        return Meanwhile(partial(compiled, graph), taken, op_by_op(graph, ()), tasks)

    return compile_backward


def backend_of(graph: Graph, options: Options) -> str:
    return choose_backend(places_of(graph), options.backend)


def watched(run: Run, suspect: Suspect, options: Options, name: str) -> Run:
    """The function that runs for a compiled graph, by the options, and by `JITCAP_DEBUG`."""
    if options.watch is not None:
        run = options.watch.around(run, suspect)
    if options.check_nans:
        run = lazy_imports.submodule("jitcap", "verify").search_nans(run, suspect.graph)
    if config.debug >= 2:
        told: Run = lazy_imports.submodule("jitcap", "profiling").told(run, name)
        return told
    return run


@contextmanager
def blamed(suspect: Suspect | SuspectCall) -> Iterator[None]:
    """A fault of the compiler says which graph it was at, or which call."""
    try:
        yield
    except Exception as fault:
        if not isinstance(fault, Break) and not hasattr(fault, SUSPECT):
            setattr(fault, SUSPECT, suspect)
        raise


def blamed_call(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], options: Options
) -> AbstractContextManager[None]:
    """A fault of capture says which call it was at."""
    return blamed(SuspectCall(fn, args, kwargs, options.backend or "", name_of(fn)))


def reproduced(error: Exception, suspects: Suspects) -> Exception:
    """A difference with the file that shows it, if there is one: see `jitcap.reproduce`."""
    if suspects and isinstance(error, lazy_imports.submodule("jitcap", "verify").VerifyError):
        write = lazy_imports.submodule("jitcap", "reproduce").write
        error.add_file(write(suspects, error.name, f"{error.where}: {error.why}"))
    return error


def _require_host(graph: Graph, options: Options) -> None:
    """Raises Break where values would be looked at that the host cannot reach."""
    asked = [name for name in ("verify", "check_nans", "watch") if getattr(options, name)]
    if asked and any(n.aval.device != "cpu" for n in graph.inputs):
        raise Break("device", f"{asked[0]}=True looks at every value, and these live on a device")


def _name_inputs(captured: Captured) -> None:
    """Graph inputs by the names that the user knows."""
    pairs = zip(captured.graph.inputs, captured.inputs, strict=True)
    known = [(n, x.origin) for n, x in pairs if x.origin is not None and "symbol" not in n.attrs]
    names = short_names([readable(origin.show()) for _, origin in known])
    for (node, _), name in zip(known, names, strict=True):
        node.attrs["name"] = name  # type: ignore[index]
