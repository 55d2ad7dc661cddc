"""What jitcap says of itself: it is seen, it is counted, and it never changes what a program does."""

import logging
import re
import sys
import threading
import traceback
import warnings
from collections import Counter
from types import SimpleNamespace

import pytest

import eager as torch
import jitcap
from eager.base import compat_warnings
from eager.base.compat_warnings import not_raised
from jitcap import JitcapWarning, config, jit
from jitcap.base import diagnostics
from jitcap.capture import bytecode


@pytest.fixture(autouse=True)
def nothing_was_said():
    jitcap.reset()


@pytest.fixture
def as_users_have(monkeypatch):
    """Everywhere else in the tests a notice that nobody expects is raised."""
    monkeypatch.setattr(compat_warnings, "not_raised", not_raised)


def split(x):
    y = x * 2
    open("/dev/null").close()
    return y + 1


def unread(x):
    later().close()
    return x * 2 + 1


async def later():
    pass


def small(x):
    return x * 2 + 1


def branching(x):
    return torch.cond(x.sum() > 0, lambda: x * 2 + 1, lambda: x)


NOTICES = {
    "is split": (split, {}),
    "runs as plain Python": (unread, {}),
    "versions are kept": (small, {"dynamic": False}),
    "runs op by op": (branching, {"backend": "triton"}),
}


def run(name):
    fn, options = NOTICES[name]
    step = jit(fn, **{"backend": "eager"} | options)
    with config(entries=1):
        for size in (3, 4, 5, 6, 2) if name == "versions are kept" else (2,):
            result = step(torch.ones(size))
    return step.stats, result


@pytest.mark.parametrize("name", NOTICES)
@pytest.mark.usefixtures("as_users_have")
def test_errors_of_filters_are_not_raised_for_ours(name, capsys):
    if NOTICES[name][1].get("backend") == "triton":
        pytest.importorskip("triton.language")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stats, result = run(name)
    assert result.tolist() == [3, 3]
    said = capsys.readouterr().err
    assert name in said
    assert f"{__file__}:" in said
    assert stats.refusals


@pytest.mark.usefixtures("as_users_have")
def test_an_unknown_python_is_no_error_either(monkeypatch, capsys):
    monkeypatch.setattr(bytecode, "is_known", lambda: False)
    jitcap.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jit(small, backend="eager")(torch.ones(2)).tolist() == [3, 3]
    assert "traced by dispatch" in capsys.readouterr().err


@pytest.mark.usefixtures("as_users_have")
def test_an_option_that_is_ignored_is_no_error_either(monkeypatch, capsys):
    monkeypatch.setattr(compat_warnings, "_said", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step = torch.compile(small, mode="max-autotune")
    assert step(torch.ones(2)).tolist() == [3, 3]
    assert "ignored" in capsys.readouterr().err


@pytest.mark.usefixtures("as_users_have")
@pytest.mark.parametrize("ends", ["stderr is None", "stderr raises", "showwarning raises"])
def test_nothing_to_show_it_on(ends, monkeypatch):
    def refuse(*_, **__):
        raise OSError("full")

    with warnings.catch_warnings():
        warnings.simplefilter("error" if "stderr" in ends else "always")
        broken = SimpleNamespace(write=refuse, flush=refuse) if "raises" in ends else None
        monkeypatch.setattr(sys, "stderr", broken)
        if "showwarning" in ends:
            monkeypatch.setattr(warnings, "showwarning", refuse)
        result = run("is split")[1]
    assert result.tolist() == [3, 3]


def test_in_threads_with_filters_that_raise(as_users_have, capsys):
    step, results = jit(split, backend="eager"), []

    def work():
        results.append(step(torch.ones(2)).tolist())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [[3, 3]] * 4
    assert capsys.readouterr().err.count("open() is called") == 1


def test_captured_by_logging(caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        try:
            run("is split")
        finally:
            logging.captureWarnings(False)
    assert "is split" in caplog.text


def test_the_users_module_gets_no_name():
    space = {"jit": jit, "__name__": "program"}
    text = (
        "def f(x):\n    open('/dev/null').close()\n    return x\nstep = jit(f, backend='eager')\n"
    )
    exec(
        compile(
            text + "def main(x):\n    return step(x), sorted(globals())\n", "program.py", "exec"
        ),
        space,
    )
    with pytest.warns(JitcapWarning) as said:
        names = space["main"](torch.ones(2))[1]
    assert "__warningregistry__" not in names
    assert {w.filename for w in said} == {"program.py"}


def test_a_program_that_records_its_own_hears_only_them():
    def fn(x):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            open("/dev/null").close()
            warnings.warn("mine", stacklevel=1)
        return x + 1, [str(w.message) for w in found]

    with pytest.warns(JitcapWarning, match="split"):
        assert jit(fn, backend="eager")(torch.ones(1))[1] == ["mine"]


def telling(x, log):
    warnings.warn("look", stacklevel=2)
    log.warning("look", stacklevel=2)
    later().close()
    return x


def test_stacklevel_in_what_runs_plainly_names_the_users_line(caplog):
    step = jit(telling, backend="eager")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        step(torch.ones(1), logging.getLogger("mine"))
    line = sys._getframe().f_lineno - 1
    found = [(w.filename, w.lineno) for w in said if w.category is UserWarning]
    assert found == [(__file__, line)]
    assert [(r.pathname, r.lineno) for r in caplog.records] == [(__file__, line)]


@pytest.mark.usefixtures("as_users_have")
def test_lines_of_ours_are_still_read_in_tracebacks():
    def fn(x):
        later().close()
        raise KeyError(x)

    with pytest.raises(KeyError) as raised, config(traceback="full"):
        jit(fn, backend="eager")(1)
    text = "".join(traceback.format_exception(raised.value))
    assert "return fn(*args, **kwargs)" in text


def test_the_first_level_says_what_was_compiled(capsys):
    step = jit(split, backend="eager")
    with config(debug=1), pytest.warns(JitcapWarning):
        step(torch.ones(2, 3))
    first, *_, last = capsys.readouterr().err.splitlines()
    line = split.__code__.co_firstlineno
    assert first.startswith(f"jit {__file__}:{line} in split: (x float32[2, 3]) 1 ops, 0 kernels; ")
    assert "; 1 graphs, 1 splits so far; passes " in first
    assert re.search(r"; 2 graphs, \d splits so far; ", last)
    assert re.search(r", total \d+\.\d ms$", last)


def test_the_second_level_has_splits_that_filters_hide(capsys):
    step = jit(split, backend="eager")
    with config(debug=2), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step(torch.ones(2, 3))
    assert "a split of @jit split: unknown call: open() is called" in capsys.readouterr().err


def test_a_dump_for_each_version(tmp_path, monkeypatch):
    monkeypatch.setattr(diagnostics, "_dumps", Counter())
    step = jit(small, backend="eager", dynamic=False)
    with config(dump=str(tmp_path)):
        for size in (2, 3):
            step(torch.ones(size))
    found = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.glob("*/*_graph.py"))
    assert found == ["small/01_graph.py", "small_2/01_graph.py"]
    assert "2]" in (tmp_path / found[0]).read_text()
    assert "3]" in (tmp_path / found[1]).read_text()
