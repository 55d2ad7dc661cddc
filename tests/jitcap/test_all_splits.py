"""`fullgraph=True`: one exception that lists every place, short, with what to do instead."""

import json
import re
import tempfile
import traceback
from pathlib import Path

import pytest

import eager as torch
import jitcap
from eager import nn, optim
from eager.utils.tensorboard import SummaryWriter
from jitcap import Break, jit, stance
from jitcap.base.breaks import INSTEAD, Place, Record

PATH = "/dev/null"


def lines_of(error):
    """The numbers of lines that it names, within this file, counted from the function's first."""
    return sorted({int(n) for n in re.findall(rf"at {re.escape(__file__)}:(\d+)", str(error))})


def marked(fn):
    """The lines that say that they split."""
    code = fn.__code__
    lines = Path(__file__).read_text().splitlines()
    end = max(line or 0 for *_, line in code.co_lines())
    return [n for n in range(code.co_firstlineno, end + 1) if "# splits" in lines[n - 1]]


model = nn.Linear(4, 4)
optimizer = optim.SGD(model.parameters(), lr=0.1)


def training(x, y):
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    with open(PATH, "w") as file:  # splits
        json.dump({"loss": loss.item()}, file)
    if loss.item() > 3:  # splits
        open(PATH).close()  # splits
    loss.backward()  # splits
    optimizer.step()
    return loss


def returns_early(x, y):
    if open(PATH).read() == "":  # splits
        return x
    if x.sum() > 100:  # splits
        open(PATH).close()  # splits
        return y
    for line in open(PATH):  # splits
        input(line)  # splits
    while x.mean() < 3:  # splits
        x = x + 1
        open(PATH).close()  # splits
    found = [eval(n) for n in ("x", "y")]  # splits
    try:
        {"a": 1}["b"]
    except KeyError:
        exec("x")  # splits
    return x + len(found)


def of_what_is_not_known(x, y):
    rows = eval("x, y")  # splits
    total, *_ = rows
    table = {1: 2}
    table.update(a=total)
    for _ in range(300):
        open(PATH).close()  # splits
    if total is None or rows[0] > 1:
        compile("x", "", "eval")  # splits
    return x + table[input()]  # splits


@pytest.mark.parametrize("fn", [training, returns_early, of_what_is_not_known])
@pytest.mark.parametrize("how", ["fullgraph", "stance", "explain"])
def test_every_place_is_listed(fn, how):
    args = torch.ones(2, 4), torch.zeros(2, 4)
    with pytest.raises(Break) as raised:
        if how == "stance":
            with stance("fail_on_split"):
                jit(fn, backend="eager")(*args)
        elif how == "explain":
            jitcap.explain(fn, fullgraph=True)(*args)
        else:
            jit(fn, backend="eager", fullgraph=True)(*args)
    assert lines_of(raised.value) == marked(fn)
    shown = "".join(traceback.format_exception(raised.value))
    assert shown.count("Traceback (most recent call last)") == 1
    assert "jitcap.Break: " in shown
    assert len(str(raised.value).splitlines()) <= 5 * len(marked(fn)) + 1
    private = r"Deferred|Unknow|Sym[A-Z]|Shadow|Traced|_tensor_|__jitcap|Session"
    assert not re.search(private, str(raised.value))


def test_what_follows_from_another_says_so(recwarn):
    args = torch.ones(2, 4) * 9, torch.zeros(2, 4)
    with pytest.raises(Break) as raised:
        jit(training, backend="eager", fullgraph=True)(*args)
    first, *_, behind, last, backward = marked(training)
    because = re.findall(r"because of line (\d+): (.*)", str(raised.value))
    behind_all = f"move line {last} behind backward() and step()"
    assert because == [(str(last), "mend that"), (str(last), behind_all)]
    step = jit(training, backend="eager")
    step(*args)
    told = next(text for text in step.stats.refusals if text.startswith("history"))
    assert re.search(r"because of line (\d+): move line \1 behind backward\(\) and step\(\)", told)


HINTS = {
    "unknown call": {
        "tqdm.std tqdm() is called": "around the loop", "eager.utils.tensorboard x": "log them",
        " open() is called": "read files", " input() is called": "ask before",
        "json.encoder _json.encode() is not known": "write them", "requests.api x": "fetch",
        "socket .__init__() of a socket": "fetch", "subprocess _thread.x() is not known": "start",
        "pandas.core.frame x": "table", "wandb.sdk x": "log", "sklearn.metrics x": "score",
        "matplotlib.figure x": "draw", " posix.getppid() is not known": "ask the system",
        " eval() is called": "write the code out", "threading x": "around the step",
        " __import__() is called": "top of the file", "sqlite3 x": "database",
        " eager.save() is called": "save and load", "PIL.Image x": "data set",
    },
    "frames": {" breakpoint() is called": 'stance("eager")'},
    "effect": {" jitcap.profile() is called": "around the call"},
    "data dependent": {" .tolist of what numpy() makes of run-time values": "call .numpy() after"},
}  # fmt: skip


def test_hints_fit_what_is_called():
    met = set()
    for kind, rows in HINTS.items():
        for called, words in rows.items():
            callee, what = called.split(" ", 1)
            hint = Record(kind, what, Place(), callee).hint
            assert words in hint, called
            met.add(hint)
    assert met == {*INSTEAD.values()}
    assert "eager.where" in Record("data dependent", "bool() of a value").hint


def test_the_module_that_the_users_line_calls_decides(recwarn):
    def fn(x):
        writer.add_scalar("loss", x.sum().item(), 0)
        return x

    with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        step = jit(fn, backend="eager")
        step(torch.ones(2))
    assert "log them after the call" in step.stats.refusals[0]
