"""Text of the program's is no markup in any page: names, lines, files and messages are shown as they
are, and a page loads and runs nothing but its own script."""

import base64
import hashlib
import html
import json
import linecache
import re
from collections import Counter
from html.parser import HTMLParser

import pytest

import eager
import jitcap
from eager import nn
from jitcap import config, explain, jit

pytestmark = pytest.mark.once

BAD = "</script></title></pre><img src=x onerror=alert(1)>\"'&lt;<!--<script>"
NAME = "<img src=x onerror=alert(2)>"


class Tags(HTMLParser):
    """Elements with the names of their attributes, the scripts, and the policy."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.policy = Counter(), [], ""
        self.inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements[tag, *(name for name, _ in attrs)] += 1
        self.inside = tag
        if tag == "script":
            self.scripts.append("")
        found = dict(attrs)
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"]

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data


def check(text):
    """A page has no element that its own template has not, and may run its own script alone."""
    tags = Tags(text)
    assert not {"img", "iframe", "a", "link", "object"} & {each[0] for each in tags.elements}
    handlers = [name for each in tags.elements for name in each[1:] if name.startswith("on")]
    assert not handlers
    (script,) = (each for each in tags.scripts if not each.startswith("{"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert tags.policy.startswith("default-src 'none'; ")
    assert tags.policy.endswith(f"script-src 'sha256-{digest}'")
    return tags


def program(source, file, **scope):
    """Functions of a source, in a file of this name."""
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    exec(compile(source, file, "exec"), scope)
    return scope


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module(NAME, nn.Linear(3, 3))
        self.register_parameter(f"{NAME}1", nn.Parameter(eager.ones(3)))

    def forward(self, x):
        return getattr(self, NAME)(x) + getattr(self, f"{NAME}1")


SOURCE = f"""
def step(x):
    text = {BAD!r}  # {BAD}
    y = model(x).square()
    if looks:
        y = [y, y + 1][int(y.sum() > 0)]
    assert y.shape[0] < 100, {BAD!r}
    return y.sum()
"""


def made(file, **scope):
    model = Model()
    step = program(SOURCE, file, model=model, **scope)["step"]
    step.__name__ = step.__qualname__ = f"{NAME}.step"
    return model, step


@pytest.mark.parametrize("looks", [False, True])
def test_what_the_program_says_is_text_in_an_explanation(looks, tmp_path):
    file = f"{tmp_path}/{NAME}\n{BAD.replace('/', '')}.py"
    _, step = made(file, looks=looks)
    step = jit(step, backend="python", dynamic=False)
    with pytest.warns(jitcap.JitcapWarning) if looks else config():
        step(eager.ones(2, 3))
        step(eager.ones(4, 3))
    with jitcap.profile() as profile:
        step(eager.ones(4, 3))
    explanation = step.explanation()
    assert f"{NAME}.step" in explanation.name
    explanation.html(tmp_path / "page.html", profile)
    tags = check((tmp_path / "page.html").read_text())
    (shown,) = (json.loads(each) for each in tags.scripts if each.startswith("{"))
    assert any(BAD in text for text in shown["texts"])
    assert any(NAME in module for part in shown["parts"] for module in part["modules"])
    frame = Tags(explanation._repr_html_())
    assert [*frame.elements] == [("iframe", "srcdoc", "title", "style")]
    inside = re.search(r'srcdoc="(.*?)"', explanation._repr_html_(), re.DOTALL)[1]
    check(html.unescape(inside))


def test_what_the_program_says_is_text_in_a_profile(tmp_path):
    file = f"{tmp_path}/{NAME}\n{BAD.replace('/', '')}.py"
    model, step = made(file, looks=False)
    with jitcap.profile(memory=True) as profile, eager.profiler.record_function(BAD):
        loss = step(eager.ones(4, 3))
        loss.backward()
        jit(step)(eager.ones(4, 3))
    assert any(NAME in holder.what for holder in profile.memory.holders)
    profile.html(tmp_path / "profile.html")
    tags = check((tmp_path / "profile.html").read_text())
    assert NAME in tags.scripts[0].replace("\\u003c", "<")
    shown = Tags(profile._repr_html_())
    assert not {"img", "script"} & {each[0] for each in shown.elements}
    del model


def test_names_that_are_no_text_are_shown(tmp_path):
    """Paths of bytes that are no UTF-8, which Python reads as lone surrogates."""
    file = f"{tmp_path}/a\udcff.py"
    _, step = made(file, looks=False)
    step.__qualname__ = "step\udcff"
    with config(dump=str(tmp_path / "dump")):
        explanation = explain(step, backend="python")(eager.ones(2, 3))
    explanation.html(tmp_path / "page.html")
    with jitcap.profile() as profile:
        step(eager.ones(2, 3))
    profile.html(tmp_path / "profile.html")
    for name in ("page.html", "profile.html"):
        check((tmp_path / name).read_text())
