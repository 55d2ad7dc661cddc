"""Faults planted in a process and in all that it starts: a folder of PYTHONPATH, and the fault's name
in JITCAP_TEST_PLANT."""

import os
import sys


def wrong_op():
    """Kernels of `tanh` give twice as much; op by op it is right."""
    import numpy as np

    from eager.core.op import REGISTRY

    op = REGISTRY["tanh"]
    body = op.body
    op.__dict__["body"] = lambda m, x: m.add(body(m, x), body(m, x))
    op.__dict__["compute"] = lambda arrays, attrs, outs: (np.tanh(arrays[0]),)
    op.__dict__["run"] = lambda arrays, attrs: (np.tanh(arrays[0]),)


def with_pass(rule):
    from jitcap import passes
    from jitcap.graph.graph import rewrite

    def planted(graph):
        return rewrite(graph, rule)

    old, new = passes.PASSES, (*passes.PASSES, (planted, "planted"))
    for module in [*sys.modules.values()]:
        if getattr(module, "PASSES", None) is old:
            module.PASSES = new


def wrong_pass():
    from jitcap.graph.graph import Node

    def rule(r, n, args):
        if n.op.name == "tanh":
            (one,) = args
            return r.append(Node(REGISTRY["sin"], (one,), n.attrs, n.avals, n.where))
        return None

    from eager.core.op import REGISTRY

    with_pass(rule)


def raising_pass():
    def rule(r, n, args):
        if n.op.name == "tanh":
            raise KeyError("planted")

    with_pass(rule)


def emitting(change):
    """C++ text of `tanh`, changed."""
    from codegen.targets.cpp.expr import Spell

    original = Spell.apply

    def apply(self, x, guard, vector):
        text = original(self, x, guard, vector)
        return change(text) if x.fn == "tanh" else text

    Spell.apply = apply


def lost_effect():
    """Capture forgets what the program sets under the name "n"."""
    from jitcap.capture.epilogue import effects

    original = effects._render

    def rendered(world, value, make):
        out = original(world, value, make)
        out.effects = [e for e in out.effects if e.name != "n"]
        return out

    effects._render = rendered


def failing_capture():
    """Capture itself fails at a `tanh`."""
    from eager.core.op import REGISTRY
    from jitcap.graph.tracer import Tracer

    original = Tracer.emit

    def emit(self, op, *given):
        if op is REGISTRY["tanh"]:
            raise KeyError("planted")
        return original(self, op, *given)

    Tracer.emit = emit


PLANTS = {
    "op": wrong_op,
    "pass": wrong_pass,
    "raising pass": raising_pass,
    "emitter": lambda: emitting(lambda text: f"add({text}, {text})"),
    "signal": lambda: emitting(lambda text: f"(*(volatile int*)8 = 1, {text})"),
    "loop": lambda: emitting(lambda text: f'({{ for (;;) asm volatile(""); {text}; }})'),
    "effect": lost_effect,
    "capture": failing_capture,
    "no C++": lambda: emitting(lambda text: f"oops({text})"),
}
if "JITCAP_TEST_PLANT" in os.environ:
    PLANTS[os.environ["JITCAP_TEST_PLANT"]]()
