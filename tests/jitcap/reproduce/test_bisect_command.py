"""`python -m jitcap bisect`: faults that are planted in a program of many operations are found, and
the file that is written shows them alone."""

import pytest
from planted_faults import operations, run, shows, written

PROGRAM = """
import sys
import eager
from jitcap import jit

@jit(backend=BACKEND)
def step(x, w):
    h = x
    for i in range(6):
        h = (h * w + i).sin() * 0.5 + x
    h = h.tanh()
    for i in range(6):
        h = (h * w - i).cos() * 0.5 + h
    return h, h.sum()

for i in range(3):
    step(eager.rand(8, 6), eager.rand(6))
print("the end", sys.argv[1:])
"""


def bisected(folder, plant, backend="python", *options, program=PROGRAM):
    """What bisect prints of the program, and the file that it writes."""
    script = folder / "train.py"
    script.write_text(program.replace("BACKEND", repr(backend)))
    ran = run("-m", "jitcap", "bisect", *options, script, "--lr", "1", plant=plant, cwd=folder)
    assert ran.returncode == 1, ran.stderr
    assert "the end" not in ran.stdout
    file = written(folder)
    assert str(file.relative_to(folder)) in ran.stderr
    return ran.stderr, file


@pytest.mark.once
def test_a_pass(tmp_path):
    told, file = bisected(tmp_path, "pass", "eager")
    assert "stage: the pass planted changes what the graph computes" in told
    assert "line: h = h.tanh()" in told
    assert operations(file) == ["tanh"]
    shows(file, "pass", "the pass planted")
    assert "random(" in file.read_text()
    assert "stored(" not in file.read_text()


@pytest.mark.nightly
def test_a_signal(tmp_path):
    told, file = bisected(tmp_path, "signal", "cpp")
    assert "call 1 of compiled code ends the process by SIGSEGV" in told
    assert operations(file) == ["tanh"]
    shows(file, "signal", "running ends the process by SIGSEGV")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("plant", "backend", "said"),
    [
        ("op", "python", "lowering or fusion"),
        ("op", "cpp", "lowering or fusion"),
        ("emitter", "cpp", "a C++ kernel"),
        ("raising pass", "cpp", "KeyError: 'planted'"),
        ("no C++", "cpp", "oops"),
        ("loop", "cpp", "running does not end"),
    ],
)
def test_planted_faults(tmp_path, plant, backend, said):
    told, file = bisected(tmp_path, plant, backend, "--limit", "5")
    assert said in told
    if plant in ("op", "emitter"):
        assert "bisect: call 1 of compiled code: step" in told
    assert operations(file) == ["tanh"]
    shows(file, plant, said)


@pytest.mark.nightly
def test_a_nan(tmp_path):
    program = PROGRAM.replace("h.tanh()", "(h - h.max()).log()")
    told, file = bisected(tmp_path, "", "python", "--nan", program=program)
    assert "log makes a NaN or Inf of finite values" in told
    assert "line: h = (h - h.max()).log()" in told
    assert operations(file) == ["log"]
    assert run(file).returncode == 1


CALLS = """
import math
import eager
from eager import nn
from jitcap import jit

class Box:
    def __init__(self):
        self.seen, self.history = 0, [1, 2]

    def grow(self, x):
        self.n = self.seen + len(self.history)
        return x * self.n

net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
opt = eager.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

def helper(x, box, k=math.pi):
    y = (x * k).tanh()
    z = box.grow(y)
    return z + math.sqrt(4)

@jit
def step(x, box):
    h = helper(x, box)
    loss = net(h).square().mean()
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss

for i in range(3):
    step(eager.rand(4, 3), Box())
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("plant", "said"),
    [("effect", "box.n: set by Python, not by the compiled version"), ("capture", "KeyError")],
)
def test_a_fault_of_capture(tmp_path, plant, said):
    """The file is the program's functions, reduced to the statements that show the fault."""
    told, file = bisected(tmp_path, plant, program=CALLS)
    assert said in told
    assert "backward" not in file.read_text()
    assert len(file.read_text().splitlines()) < 60
    shows(file, plant, said)


@pytest.mark.nightly
def test_a_program_that_is_right(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM.replace("BACKEND", "'eager'"))
    ran = run("-m", "jitcap", "bisect", script, "--lr", "1")
    assert (ran.returncode, ran.stdout) == (0, "the end ['--lr', '1']\n")
    assert "3 calls of compiled code, and nothing is wrong" in ran.stderr


@pytest.mark.once
@pytest.mark.parametrize(("end", "status"), [("", 1), ("sys.exit()", 1), ("sys.exit(3)", 3)])
def test_a_program_of_which_nothing_is_compiled(tmp_path, end, status):
    script = tmp_path / "train.py"
    script.write_text(f"import sys\n{end}\n")
    ran = run("-m", "jitcap", "bisect", script)
    assert ran.returncode == status
    assert "nothing was compiled" in ran.stderr
