"""Capture: what cannot be captured, as records. (kind, detail, place) -> what, where, why, hint.

`KINDS` is the single table of refusals; documentation and tests read it. A `Break` carries its
record up to whoever decides what to do instead (split, run plainly, or raise under fullgraph).
"""

from __future__ import annotations

import linecache
import re
from typing import Any, Final

from eager.base.dataclass import dataclass
from jitcap.base.assumed import Assumed


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of refusal: why it cannot be captured, and what the user can do."""

    why: str
    hint: str


REPORT: Final = "please report it, with what `python -m jitcap bisect script.py` says and writes"
KINDS: Final[dict[str, Kind]] = {
    "data dependent": Kind(
        "the program asks for a value that is known only when the compiled part has run",
        "use eager.where (or a mask) instead of a Python branch, or move the decision out of @jit",
    ),
    "unknown call": Kind(
        "the function is not Python code that can be read, nor one that is known to be pure",
        "call it outside @jit, or register it with jitcap.custom_op",
    ),
    "opaque object": Kind(
        "the object's state lives in C and cannot be read with guards",
        "pass the numbers or tensors it holds instead",
    ),
    "recursion": Kind(
        "capture follows calls into each other, and what it makes has every level in it",
        "nothing to do: it runs as plain Python; a loop in its place is captured",
    ),
    "opcode": Kind(
        "this operation of the bytecode is not supported",
        "write the statement in another way, or move it out of @jit",
    ),
    "async": Kind("coroutines are not captured", "await outside @jit"),
    "generator": Kind(
        "a generator that started elsewhere, or that outlives the call, has a hidden frame",
        "make a list of its values first",
    ),
    "time and chance": Kind(
        "the value differs on every call and is used inside",
        "call it outside @jit and pass the value in",
    ),
    "numpy": Kind(
        "NumPy would need the values of the tensor now",
        "use the function of the same name from eager",
    ),
    "array memory": Kind(
        "a tensor and a NumPy array share memory, and a write to one has to show in the other",
        "make the tensor a copy: eager.tensor(array)",
    ),
    "device": Kind(
        "what is compiled for a device are kernels there, and this is none, or is not read yet",
        "nothing to do: it runs op by op, on the device",
    ),
    "aliasing": Kind(
        "two inputs share memory and one of them is written",
        "pass a .clone() of one of them",
    ),
    "effect": Kind(
        "this change of the outside world cannot be replayed after the compiled part",
        "do it outside @jit",
    ),
    "cache": Kind(
        "the function behind a cache runs, and what it does and reads is its own",
        "nothing to do: once the answer is kept, the call is captured",
    ),
    "failed check": Kind(
        "what Python would raise there is raised by the function itself: the run was given up",
        "keep the value in its range, or handle the case with eager.where",
    ),
    "frames": Kind(
        "the program looks at a frame or a traceback, and a captured program has none of its own",
        "keep the text of an exception, not the exception, or look outside @jit",
    ),
    "finalizer": Kind(
        "it runs when the last name of the object goes, and frames of capture keep names longer",
        "make the object outside @jit, or close it by a method",
    ),
    "builtins": Kind(
        "capture itself runs on Python's builtins, as does all that it calls",
        "give the replacement another name, or replace a name of a module",
    ),
    "history": Kind(
        "backward() goes on into what was computed before the part that is compiled here",
        "call backward() in the @jit function that computes the loss",
    ),
    "later effect": Kind(
        "backward() is called outside, where the compiled gradient would not do this",
        "call backward() inside @jit",
    ),
    "exception": Kind(
        "the program raised an exception", "it is run plainly, so that you see Python's own error"
    ),
    "error text": Kind(
        "the program catches an error of Python's own, whose words capture cannot tell",
        "ask before (isinstance, hasattr, len) instead of catching what fails",
    ),
    "iteration": Kind(
        "the iterator was made outside: its next value is fetched between two compiled parts",
        "nothing to do: this is how a loop over a data loader runs",
    ),
    "size": Kind(
        "a graph of this size would compile for minutes",
        "put @jit on the body of the loop instead of on the loop",
    ),
    "growing list": Kind(
        "something is appended to this list, so it is another one at each call",
        "keep a running sum beside the list",
    ),
    "requested": Kind("graph_break() or disable() asks for it", "remove it to capture this part"),
    "limit": Kind(
        "compiling again and again costs more than it saves, so this runs as plain Python",
        "pass what differs from call to call as a tensor or a float, or raise config.entries",
    ),
    "version": Kind(
        "this version of Python has bytecode that is not known", "use Python 3.11, 3.12 or 3.13"
    ),
    "internal": Kind("the compiler itself failed", REPORT),
}

# what the user's line calls, by its module and the words of the refusal -> what to do instead
INSTEAD: Final[dict[str, str]] = {
    r"\btqdm\b": "put the bar around the loop that calls the step: for x in tqdm(loader): step(x)",
    r"tensorboard|SummaryWriter|\b(wandb|mlflow|neptune|comet_ml|clearml|aim)\b":
        "return the values from the step, and log them after the call",
    r"\b(sklearn|torchmetrics|evaluate)\b":
        "return predictions and targets from the step, and score them after the call",
    r"\b(matplotlib|seaborn|plotly|bokeh)\b": "return what is to be drawn, and draw after the call",
    r"\b(pandas|polars|pyarrow)\b":
        "make tensors of the table before the step, and a table of its results after",
    r"\b(json|csv|pickle|yaml|marshal|shelve)\b|\b_(json|csv|pickle)\b":
        "return the values from the step, and write them after the call",
    r"\b(requests|urllib|http|socket|ssl|httpx|aiohttp|ftplib|smtplib)\b|\b_socket\b":
        "fetch before the step and pass the data in; send after the call",
    r"\b(sqlite3|_sqlite3|psycopg2|sqlalchemy|redis)\b":
        "ask the database before the step and pass the rows in; write after the call",
    r"\b(subprocess|multiprocessing|concurrent|_posixsubprocess)\b|\b(system|popen|fork)\(\)":
        "start processes before or after the step, and pass in what they answer",
    r"\b(threading|queue|_thread|_queue)\b": "use threads, locks and queues around the step",
    r"\b(pdb|bdb|ipdb)\b|\bbreakpoint\(\)":
        'turn @jit off to look inside: with jitcap.stance("eager"): step(...)',
    r"\binput\(\)|\bgetpass\b": "ask before the step, and pass the answer in",
    r"\bjitcap\.profile\b|\beager\.profiler\b":
        "put the profile around the call: with jitcap.profile() as p: step(...)",
    r"\beager\.(save|load)\(\)": "save and load before or after the step",
    r"\b(PIL|cv2|torchvision|imageio)\b": "read and transform images in the data set",
    r"\bopen\(\)|\b(pathlib|io|_io|shutil|glob|tempfile)\b|TextIOWrapper|Buffered(Reader|Writer)|FileIO":
        "read files before the step and pass the data in; write them after the call",
    r"\b(posix|nt|posixpath|ntpath|platform|getpass|os)\b":
        "ask the system before the step, and pass the answer in",
    r"numpy\(\) makes|made of run-time values|scipy\b":
        "compute it with eager's functions, or return the tensor and call .numpy() after the step",
    r"\b(__import__|import_module)\(\)|\bimportlib\b": "import at the top of the file",
    r"\b(eval|exec|compile)\(\)": "write the code out, or make the function of it before the step",
}  # fmt: skip

_CALLS: Final = {"unknown call", "opaque object", "effect", "data dependent", "frames", "numpy"}


@dataclass(frozen=True, slots=True)
class Place:
    """A range of the user's source."""

    file: str = ""
    line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0
    function: str = ""

    def excerpt(self) -> str:
        """The source line with a caret under the part that is meant ("" without a source)."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text:
            return ""
        one_line = self.end_line in (0, self.line) and self.end_column > self.column
        end = self.end_column if one_line else len(text)
        return f"    {text}\n    {' ' * self.column}{'^' * max(end - self.column, 1)}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


@dataclass(frozen=True, slots=True)
class Record:
    """A refusal: what, where, why, hint. `callee`: the module that the user's line calls into,
    `because`: the place of another one, without which this would not be."""

    kind: str
    what: str
    place: Place = Place()
    callee: str = ""
    because: Place | None = None

    @property
    def why(self) -> str:
        return KINDS[self.kind].why

    @property
    def hint(self) -> str:
        if self.because is not None:
            line = self.because.line
            if self.kind == "history":
                return f"because of line {line}: move line {line} behind backward() and step()"
            return f"because of line {line}: mend that"
        named = f"{self.callee} {self.what}"
        found = (hint for words, hint in INSTEAD.items() if re.search(words, named))
        usual = KINDS[self.kind].hint
        return next(found, usual) if self.kind in _CALLS else usual

    def __str__(self) -> str:
        return self.show(self.why, self.hint)

    def show(self, why: str, hint: str) -> str:
        """Text of the refusal, without empty parts."""
        lines = [f"{self.kind}: {self.what}", f"  at {self.place}", self.place.excerpt()]
        lines += [f"  why:  {why}"] * bool(why) + [f"  hint: {hint}"] * bool(hint)
        return "\n".join(line for line in lines if line)


class Again(BaseException):
    """The loop at a site, which was recorded as a whole, cannot be, or, without a site, calls that
    were copied: capture again, with these as they stand."""

    def __init__(self, site: tuple[Any, ...] | None = None) -> None:
        super().__init__()
        self.lesson = Assumed(apart=True) if site is None else Assumed(sites=frozenset({site}))


class Break(Exception):
    """Capture cannot go on here. Raised without a place; the interpreter's owner adds it."""

    __module__ = "jitcap"  # where users find it

    def __init__(self, kind: str, what: str) -> None:
        if kind not in KINDS:
            raise KeyError(f"no such kind of break: {kind!r}; known: {sorted(KINDS)}")
        super().__init__(what)
        self.kind = kind
        self.what = what
        self.place: Place | None = None
        self.__jitcap_callee__ = "", False  # the module that the user's line calls into
        self.because: Place | None = None  # of another refusal, without which this would not be
        self.others: tuple[Record, ...] = ()  # further places, where all are looked for
        self.done = 0  # instructions of the outermost frame that can be captured before it
        self.before = 0  # those before the loop or `with` in which a part would end that cannot
        self.deep: Any = None  # the code that calls itself, where that is too deep
        self.leaves = False  # whether the program is left there, by an exception
        self.unsure = False  # an exception that comes after a check, which may fail first
        self.lesson: Assumed | None = None  # with which capture may try again: it need not stand

    @staticmethod
    def of(first: Record, *others: Record) -> Break:
        """The refusal with this record."""
        refusal = Break(first.kind, first.what)
        refusal.place, refusal.others = first.place, others
        refusal.__jitcap_callee__, refusal.because = (first.callee, True), first.because
        return refusal

    def __str__(self) -> str:
        if not self.others:
            return str(self.record()) if self.place else self.what
        records, hints = (self.record(), *self.others), set[str]()
        texts = [f"{len(records)} places cannot be captured"]
        for record in records:
            texts.append(record.show("", "" if record.hint in hints else record.hint))
            hints.add(record.hint)
        return "\n".join(texts)

    def unless(self, lesson: Assumed) -> Break:
        """This refusal, which need not stand: capture may try again, assuming the lesson."""
        self.lesson = lesson
        return self

    def leaving(self) -> Break:
        """This refusal, of an exception that leaves the program there."""
        self.leaves = True
        return self

    def record(self) -> Record:
        place, because, cause = self.place or Place(), self.because, self.__cause__
        seen = {id(self)}  # one may be raised from what was raised from it
        while because is None and cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            # What one way of a branch refused.
            found = cause.place if isinstance(cause, Break) else None
            because, cause = found if found != place else None, cause.__cause__
        return Record(self.kind, self.what, place, self.__jitcap_callee__[0], because)


def note_callee(refusal: BaseException, frame: Any, library: bool) -> None:
    """Note the module that the user's line calls into on a refusal that passes through `frame`,
    innermost first."""
    callee, in_program = getattr(refusal, "__jitcap_callee__", ("", False))
    if not in_program:
        if library or "site-packages" in frame.code.co_filename:
            callee = str(frame.globals.get("__name__"))
        else:
            in_program = True
        refusal.__jitcap_callee__ = callee, in_program  # type: ignore[attr-defined]
