"""The line on a terminal that a compile shows which takes long."""

import io
import sys
import time

import pytest

import eager
from codegen.runtime import progress
from jitcap import jit


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("kind", [Terminal, io.StringIO, type(None)])
def test_a_long_compile_shows_a_line_on_a_terminal_alone(monkeypatch, kind):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "EACH", 0.001)
    stream = kind()
    monkeypatch.setattr(sys, "stderr", stream)
    assert jit(lambda x: (x * 2).exp().sum(), backend="python")(eager.zeros(3)).item() == 3.0
    if kind is not Terminal:
        assert stream is None or not stream.getvalue()
        return
    lines = stream.getvalue().split("\r")
    assert lines[0] == ""
    assert lines[1].startswith("jit ")
    assert lines[-1] == "\x1b[K", "it is wiped at the end"
    assert all(len(line) <= 79 + len("\x1b[K") for line in lines)
    assert "\n" not in stream.getvalue()


def test_short_ones_show_nothing_and_inner_ones_share_the_line(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.shown("short"):
        pass
    assert stream.getvalue() == ""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "EACH", 0.001)
    with pytest.raises(ZeroDivisionError), progress.shown("outer"), progress.shown("inner"):
        progress.at("Triton", 3, 8)
        time.sleep(0.05)
        raise ZeroDivisionError
    assert "jit outer: Triton, 3 of 8 kernels, 0 s" in stream.getvalue()
    assert "inner" not in stream.getvalue()
    with progress.shown("next"):
        time.sleep(0.01)
    assert "jit next" in stream.getvalue()
