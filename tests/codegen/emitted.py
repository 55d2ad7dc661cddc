"""What the compiler writes for the benchmarks' workloads and for random programs, whatever it
compiled before: `python -m tests.codegen.emitted NAME ...` prints a digest of each, in that order.

Names are those of the workloads, and "random 7" for the seventh random program.
"""

import hashlib
import json
import sys

import codegen
import eager
from codegen import Program, Unsupported
from jitcap import config, jit


class _Lowered(Exception):
    """Instead of an artifact: the program is all that is wanted."""


def lowered(fn, args):
    """The programs that a call of jit(fn) compiles first."""
    found = []

    def keep(program, target=None):
        found.append(program)
        raise _Lowered

    begun, codegen.begin = codegen.begin, keep
    try:
        with config(check=True, strict=True):  # nothing kept on disk is read
            jit(fn)(*args)
    except _Lowered:
        pass
    finally:
        codegen.begin = begun
    assert found, "nothing was compiled"
    return found


def workload(name):
    from benchmarks.competitors import training_step
    from benchmarks.workloads import BY_NAME

    made = BY_NAME[name].build(eager)
    return lowered(training_step(made) if made.optimizer else made.loss, made.args)


def random_program(seed):
    from tests.fuzz import tensor_programs as programs

    arrays, steps = programs.draw(seed)
    leaves = [eager.tensor(a, dtype=eager.float32).requires_grad_() for a in arrays]

    def forward(tensors):
        return programs.execute(eager, tensors, steps)[0]

    def step(tensors):
        values = forward(tensors)
        programs.total(values).backward()
        return values

    try:
        return lowered(step, (leaves,))
    except RuntimeError:  # a gradient wants a value that was overwritten
        return lowered(forward, (leaves,))


def programs_of(name) -> list[Program]:
    kind, _, number = name.partition(" ")
    return random_program(int(number)) if kind == "random" else workload(name)


def texts(program):
    """The C++ and the Triton source of a program."""
    yield codegen.run_stages(program)[0]["source"].text
    try:
        yield codegen.run_stages(program, "triton")[0]["source"].text
    except Unsupported as refusal:
        yield str(refusal)


def emitted(name):
    return [text for program in programs_of(name) for text in texts(program)]


def digest(name):
    return hashlib.sha256("\0".join(emitted(name)).encode()).hexdigest()


if __name__ == "__main__":
    print(json.dumps({name: digest(name) for name in sys.argv[1:]}))
