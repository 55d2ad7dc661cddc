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
captures and compiles nothing. A backward is compiled when it first runs.

Autodiff has its turn in `capture` (`finish`), while the tape and what it may ask of outside are
there: an attempt whose derivative is refused does not stand, and hooks are read from bytecode, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

from codegen.runtime import progress
from eager.base import lazy_imports
from eager.base.config import config
from eager.base.dataclass import dataclass
from jitcap.autodiff.compiled_function import Region
from jitcap.autodiff.joint import Joint
from jitcap.base.breaks import REPORT, Break, Record
from jitcap.base.call_policy import name_of
from jitcap.base.diagnostics import Trail, announce, note_fault
from jitcap.base.garbage import collection_paused
from jitcap.base.module_path import readable
from jitcap.base.origin import APART
from jitcap.base.short_names import short_names
from jitcap.capture import bytecode
from jitcap.capture.capture import capture, search
from jitcap.capture.plain import Plain, Whole
from jitcap.capture.result import Captured, link, require_fit
from jitcap.capture.sizes import DATA, is_size
from jitcap.capture.version import MISS, Call, Compiled, Options, Suspects
from jitcap.compile.anticipate import anticipated
from jitcap.compile.backends import choose_backend
from jitcap.compile.compile_graph import begin_code, compile_graph
from jitcap.compile.executable import Run, op_by_op
from jitcap.compile.optimise import optimise
from jitcap.compile.suspect import Suspect, SuspectCall
from jitcap.explain import dump_page
from jitcap.graph.cut_by_device import places_of
from jitcap.graph.graph import Graph
from jitcap.graph.listing import listing
from jitcap.store import versions

SUSPECT: Final = "__jitcap_suspect__"  # attribute of an exception of the compiler
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
    """The whole road for one call. Runs nothing.

    Sizes among `varying` are symbols where that compiles, else what they are now, and a size that
    data decide splits. `unsafe`: lines that are not captured. `keep` as in `compile_captured`.
    Raises Break when the program cannot be captured.
    """
    static = frozenset(name for name in varying if not is_size(name))
    together = frozenset(name for name in varying if not name.startswith(APART))
    ways = [x for x in dict.fromkeys((varying, varying - {DATA}, together)) if x != static]
    first: Exception | None = None
    try:
        for names in (*ways, static):
            try:
                return _compiled(fn, args, kwargs, options, names, unsafe, keep)
            except Exception as refusal:
                if names is static:
                    if first is not None and _is_of_data(first) and _is_of_data(refusal):
                        raise first from refusal  # what is asked of a size, not that there is one
                    raise
                first = first or refusal
                note_fault(name_of(fn), refusal)
    finally:
        first = None  # whose traceback leads back to this frame
    raise AssertionError("the last way returns or raises")


def _is_of_data(refusal: Exception) -> bool:
    return isinstance(refusal, Break) and refusal.kind == "data dependent"


def _compiled(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    varying: frozenset[str],
    unsafe: frozenset[str],
    keep: Keep | None,
) -> Compiled:
    trail, way = Trail(name_of(fn)), front()
    with collection_paused(), progress.shown(trail.name):
        with (
            trail.stage("capture"),
            anticipated(options.backend),
            blamed_call(fn, args, kwargs, options),
        ):
            captured = way.capture(fn, args, kwargs, dynamic=varying, unsafe=unsafe)
        require_fit(captured, varying, args, kwargs)
        return compile_captured(captured, options, trail, Whole(fn, varying, way.capture), keep)


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
    graph, region, code, files = captured.graph, None, None, None
    _require_host(graph, options)
    _name_inputs(captured)
    trail.notes += captured.rolled
    if captured.joint is not None:
        joint = captured.joint
        trail.keep("joint", lambda: listing(joint.graph), made=joint.graph)
        with trail.stage("partition"):
            region = region_of(options, joint, captured.writes, trail)
            graph = region.forward
    oracle = plain if options.verify else None
    suspect = Suspect(graph, None, captured.writes, captured.strides, backend_of(graph, options))
    with blamed(suspect):
        optimised = optimise(graph, trail, options.backend)
        with begin_code(
            optimised, captured.writes, captured.strides, trail, options.backend
        ) as begun:
            with trail.stage("entry"):
                if oracle is None:
                    code = captured.code()
                if code is not None and keep is not None and begun.waits:
                    files = keep(captured, False)
            executable = begun.result()
    run = watched(executable.run, suspect, options, trail.name)
    call: Call
    with trail.stage("entry"):
        if code is not None:
            call = link(code, captured.names.namespace, run, MISS, region)
        else:
            assert oracle is not None
            trials = replace(options, watch=None)  # they are no calls of the program
            compiler = _backward_compiler(trials, Trail("verify"))
            differs = options.watch.differs if options.watch is not None else reproduced
            verified = lazy_imports.submodule("jitcap", "verify").Verified
            call = verified(captured, run, region, oracle, compiler, suspect, differs)
    trail.keep("entry", captured.show)
    compiled = Compiled(call, captured, executable, trail, captured.graph, files=files)
    if config.dump:
        trail.write_page = partial(dump_page, compiled)
        trail.write_page()
    return compiled


def region_of(
    options: Options, joint: Joint, writes: tuple[tuple[int, int], ...], trail: Trail
) -> Region:
    """The joint graph, to be cut in two; its backward is compiled as `options` say."""
    return Region(joint, writes, _backward_compiler(options, trail))


def _backward_compiler(options: Options, trail: Trail) -> Callable[[Graph], Any]:
    """Compiler of a region's backward, which runs when the backward is first asked for."""

    def compile_backward(graph: Graph) -> Any:
        suspect = Suspect(graph, None, (), None, backend_of(graph, options))
        try:
            with progress.shown(f"{trail.name} (backward)"), blamed(suspect):
                made = compile_graph(
                    graph, backend=options.backend, trail=trail, prefix="backward_"
                )
            run, refused = made.run, made.refused
            if trail.stats is not None:
                trail.stats.callbacks += len(made.callbacks)
                trail.stats.programs.extend(made.runs)
            if trail.write_page is not None:
                trail.write_page()
        except Exception as fault:
            if config.strict or config.check or graph.has_symbols:
                raise
            refused = f"compiling it failed: {type(fault).__name__}: {fault}"
            what = f"the backward of {trail.name} runs op by op: {refused}; {REPORT}"
            announce((trail.name, refused), what)
            run = op_by_op(graph, ())
        if refused and trail.stats is not None:
            trail.stats.fallbacks += 1
            trail.stats.refusals.append(f"backward of {trail.name}: {refused}")
        return watched(run, suspect, options, f"backward of {trail.name}")

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
