"""The page of an explanation: one file, whose data link the user's lines with all that came of
them. The page in a browser: scripts/browser."""

import json
import re
from pathlib import Path

import pytest

import eager
import jitcap
from eager import nn
from eager.nn import functional as F
from jitcap import config, explain, jit
from jitcap.base.diagnostics import Trail
from jitcap.compile import rewrites
from jitcap.report.links import Places
from jitcap.report.picture import repeats

ROOT = Path(__file__).resolve().parents[3]


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + F.gelu(self.up(self.norm(x))) * 1  # the line in question


def training(layers, width=8):
    model = nn.Sequential(*(Layer(width) for _ in range(layers)))
    optimizer = eager.optim.AdamW(model.parameters())

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, eager.randn(4, width)


def data_of(page):
    """What a page shows."""
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def written(explanation, folder, profile=None):
    explanation.html(folder / "page.html", profile)
    return (folder / "page.html").read_text()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    step, x = training(8)
    return written(explain(step)(x), tmp_path_factory.mktemp("page"))


def lines_of(data, text, place):
    """The lines of a text that come from a place."""
    lines = data["texts"][text["text"]].split("\n")
    runs = [run for run in text["links"] if place in run[2]]
    return [line for first, last, _ in runs for line in lines[first : last + 1]]


def marked(data):
    """The place of the line in question."""
    (file,) = [i for i, f in enumerate(data["files"]) if f["name"] == __file__]
    lines = data["texts"][data["files"][file]["text"]].split("\n")
    number = next(i for i, line in enumerate(lines, 1) if "# the line in question" in line)
    return data["places"].index([file, number])


def test_a_page_needs_nothing_else(page):
    code = re.sub(r'id="data">.*?</script>', "", page, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)\s*=|@import|url\(|https?://|\bfetch\(""", code)
    assert page.count("<script") == page.count("</script>") == 2
    assert "prefers-color-scheme: dark" in page


def test_a_line_is_linked_with_all_that_came_of_it(page):
    data = data_of(page)
    place = marked(data)
    (part,) = data["parts"]
    stages = {stage["name"]: stage for stage in part["stages"]}
    assert {"graph", "passes", "fused", "source"} <= stages.keys()
    graph = lines_of(data, stages["graph"], place)
    assert any("ops.gelu" in line for line in graph)
    assert not any("layer_norm" in line for line in graph if "test_page" not in line)
    assert any(re.match(r"\s*def k\d+", line) for line in lines_of(data, stages["fused"], place))
    code = lines_of(data, stages["source"], place)
    assert any("JC_NOINLINE void" in line for line in code)
    assert any("erf" in line for line in code)
    for stage in part["stages"]:
        ends = [-1, *(end for _, end, _ in stage["links"])]
        starts = [start for start, _, _ in stage["links"]]
        assert all(a < b for a, b in zip(ends, starts, strict=False))
        assert not starts or ends[-1] < data["texts"][stage["text"]].count("\n") + 1


def test_rewrites_are_shown_with_their_rules(page):
    data = data_of(page)
    texts = {r["name"]: data["texts"][r["text"]] for r in data["parts"][0]["rewrites"]}
    assert "equal layers are calls of one graph" in texts["share_repeats"]
    simplified = next(text for name, text in texts.items() if name.startswith("simplify"))
    assert re.search(r"# \d+ × one: x \* 1 = 1 \* x = x\.  at .*test_page\.py:\d+", simplified)
    assert re.search(r"^-.*ops\.mul\(gelu\w*, 1\)", simplified, re.MULTILINE)


def test_a_picture_folds_by_module_and_by_layer(page):
    (part,) = data_of(page)["parts"]
    pictures = dict(part["pictures"])
    assert {"graph", "passes"} <= pictures.keys()
    graph = part["graphs"][pictures["graph"]]
    labels = [*labels_of(graph["groups"])]
    assert "8 × model.*" in labels and "7 × model.*, backward" in labels, labels
    assert {"model.3", "model.3.norm", "model.3.norm, backward"} <= {*labels}
    assert "step, backward" in labels and "step: 8 × mul, add, lerp, …" in labels, labels
    for graph in part["graphs"]:
        for i, node in enumerate(graph["nodes"]):
            assert all(-len(graph["inputs"]) <= a < i for a in node[4])
        check_nested(graph["groups"])


def test_a_call_of_a_shared_layer_has_the_modules_that_it_stands_for(tmp_path):
    step, x = training(14)
    (part,) = data_of(written(explain(step, backend="python")(x), tmp_path))["parts"]
    graph = part["graphs"][dict(part["pictures"])["passes"]]
    calls = [node for node in graph["nodes"] if node[5]]  # which unfold to the layer's graph
    named = [{part["modules"][m] for m in node[6]} for node in calls]
    for k in range(1, 12):
        assert any({f"model.{k}.up", f"model.{k}.norm"} <= each for each in named), (k, named)
    titles = {node[0].partition(": ")[2] for node in calls}
    assert {"model.2", "model.2, backward"} <= titles, titles


def labels_of(group):
    yield group[0]
    for inner in group[4]:
        yield from labels_of(inner)


def check_nested(group):
    at = group[2]
    for inner in group[4]:
        assert at <= inner[2] < inner[3] <= group[3]
        check_nested(inner)
        at = inner[3]


def test_the_memory_plan_is_a_map(page):
    (part,) = data_of(page)["parts"]
    memory = part["memory"]
    for name, offset, size, first, last, _ in memory["blocks"]:
        assert 0 <= first <= last < len(memory["steps"]), name
        assert 0 <= offset and offset + size <= memory["bytes"], name
    for i, a in enumerate(memory["blocks"]):
        for b in memory["blocks"][:i]:
            beside = a[4] < b[3] or b[4] < a[3]
            assert beside or a[1] + a[2] <= b[1] or b[1] + b[2] <= a[1], (a, b)


def test_what_happened_is_told_in_order(tmp_path):
    def scaled(x, factor):
        y = x * factor
        return [y, y + 1][int(y.sum() > 0)] * 3

    fn = jit(scaled, backend="eager", dynamic=False)
    with pytest.warns(jitcap.JitcapWarning, match="split"):
        fn(eager.ones(3), 2)
    whole = jit(lambda x: x * 2, backend="eager", dynamic=False)
    whole(eager.ones(3))
    whole(eager.ones(4))
    data = data_of(written(whole.explanation(), tmp_path))
    assert [event["kind"] for event in data["events"]] == ["compile", "recompile", "compile"]
    assert [event["call"] for event in data["events"]] == [1, 2, 2]
    assert len(data["parts"]) == 2
    story = data["texts"][data["story"]["text"]]
    assert re.search(r"recompile: x: expected .*3.*, got .*4.*at .*test_page", story), story
    split = data_of(written(fn.explanation(), tmp_path))
    assert "split" in [event["kind"] for event in split["events"]]
    text = split["texts"][split["story"]["text"]]
    assert "int(y.sum() > 0)" in text
    assert any(run[2] for run in split["story"]["links"])


def test_a_profile_is_shown_beside(tmp_path):
    step = jit(lambda x: (x * 2).exp().sum(), backend="cpp")
    x = eager.ones(64)
    step(x)
    with jitcap.profile() as profile:
        step(x)
    data = data_of(written(step.explanation(), tmp_path, profile))
    rows = data["texts"][data["profile"]["text"]].split("\n")
    assert len(rows) > 3
    assert any("kernel" in rows[first] for first, _, _ in data["profile"]["links"])


def test_text_is_no_markup(tmp_path):
    def fn(x):
        return x + len("</script><b>")

    page = written(explain(fn, backend="eager")(eager.ones(2)), tmp_path)
    assert page.count("</script>") == 2
    data = data_of(page)
    assert "</script><b>" in data["texts"][data["files"][0]["text"]]


def test_notebooks_show_the_page():
    shown = explain(lambda x: x * 2, backend="eager")(eager.ones(2))._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert shown.count('"') == 6  # all others are escaped


def test_a_dump_has_the_page_with_the_backward(tmp_path):
    layer = nn.Linear(2, 3)
    with config(dump=str(tmp_path)):
        loss = jit(lambda x: layer(x).square().sum(), backend="python")(eager.ones(4, 2))
        (path,) = tmp_path.rglob("index.html")
        before = data_of(path.read_text())
        loss.backward()
    after = data_of(path.read_text())
    assert len(before["parts"]) == 1
    assert len(after["parts"]) == 2


def test_files_of_one_name_are_told_apart():
    places = Places([("/a/model.py", 3), ("/b/model.py", 5)])
    assert places.mentioned("x = f()  # model.py:5") == (1,)
    assert places.mentioned("x = f()  # /a/model.py:3, /b/model.py:5") == (0, 1)
    assert places.mentioned("time is 10:30") == ()
    spaced = Places([("<my notebook>", 1), ("/a b/c d.py", 2)])
    assert spaced.mentioned("# c d.py:2 <my notebook>:1") == (1, 0)


def test_lines_of_a_block_come_from_what_its_head_names():
    places = Places([("f.py", 1), ("f.py", 2)])
    text = "def k0(B):  # f.py:1\n    x = 1\n\n    y = 2  # f.py:2\nk1(B)\n    z\nend"
    assert places.runs(text, {"k1": [1]}) == [[0, 1, [0]], [3, 5, [1]]]


def test_kernels_are_found_by_their_numbers():
    """Whatever words follow, and whichever body they are of."""
    places, kernels = Places([("f.py", 1), ("f.py", 2)]), {"k1": [0], "b2_k1": [1]}
    assert places.runs("void k1_exp_add(int)", kernels) == [[0, 0, [0]]]
    assert places.runs("void b2_k1_sum(int)", kernels) == [[0, 0, [1]]]
    assert places.runs("void k11_exp(int)", kernels) == []


def test_repeats():
    assert [*repeats([1, 2, 3, 1, 2, 3, 1, 2, 3, 4])] == [(0, 3, 3)]
    assert [*repeats([0, 1, 1, 1, 1, 2, 1, 2])] == [(1, 1, 4)]
    assert [*repeats([1, 1, 1, 1], shortest=2)] == []
    assert [*repeats([1, 2, 1, 2])] == []


def test_the_wheel_has_what_the_page_is_made_of():
    """Script and style are package data beside the Python."""
    names = {path.name for path in (ROOT / "jitcap" / "report").iterdir()}
    installed = {path.name for path in Path(jitcap.__file__).parent.joinpath("report").iterdir()}
    assert {"page.js", "page.css"} <= names & installed


def test_a_text_of_a_dump_is_made_once(tmp_path):
    made = []
    with config(dump=str(tmp_path)):
        trail = Trail("step")
        trail.keep("graph", lambda: made.append("graph") or "x = 1")
    assert trail.stages == {"graph": "x = 1"} and made == ["graph"]


def test_of_a_long_difference_the_begin_is_told(monkeypatch):
    rows = [(k, lambda k=k: f"line {k}") for k in range(100)]
    assert rewrites._difference(rows[:3], rows[:4]).split("\n") == [
        "@@ -2,2 +2,3 @@", " line 1", " line 2", "+line 3",
    ]  # fmt: skip
    monkeypatch.setattr(rewrites, "LONGEST", 40)
    *lines, last = rewrites._difference([], rows).split("\n")
    assert lines[1] == "+line 0" and last == f"# … {101 - len(lines)} more lines"
