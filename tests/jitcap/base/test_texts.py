"""What is told of a compile: names of inputs, times as a tree, stages without what others have."""

import pytest

from jitcap.base.abridge import Abridged
from jitcap.base.diagnostics import SCREEN, Recompile, Stats, on_screen
from jitcap.base.short_names import short_names
from jitcap.base.times import shown, tree

pytestmark = pytest.mark.once

KERNEL = "def {}(a, b):\n    for r in range(8):\n        b[r] = {}"


def test_a_stage_that_changes_nothing_says_so():
    told = Abridged()
    text = "\n\n".join([KERNEL.format("k0", "a[r]"), KERNEL.format("k1", "2 * a[r]")])
    assert told.tell("fused", text) == text
    assert told.tell("placed", text + "\n") == "# unchanged: as in fused"
    other = text.replace("2 *", "3 *")
    assert told.tell("split", other).split("\n\n") == [
        KERNEL.format("k1", "3 * a[r]"), "# as in fused: k0",
    ]  # fmt: skip
    assert told.tell("tiled", other) == "# unchanged: as in split"
    assert told.tell("plan", text, whole=True) == "# unchanged: as in fused"
    assert told.tell("source", "#include <x>") == "#include <x>"
    assert told.tell("again", "#include <x>") == "// unchanged: as in source"


def test_of_a_long_list_the_lines_that_changed_are_told():
    told, lines = Abridged(), [f"v{k} = op(v{k * k % 7})" for k in range(60)]
    told.tell("program", "\n".join(lines))
    lines[20] = "v20 = other(v3)"
    assert told.tell("transposed", "\n".join(lines)).splitlines() == [
        "# 20 lines as in program: v0 … v19", "v20 = other(v3)",
        "# 39 lines as in program: v21 … v59",
    ]  # fmt: skip


def test_lines_in_a_row_are_named_where_an_earlier_stage_has_them_further_out():
    told, lines = (
        Abridged(),
        [f"v{k}[i0] = (v{k + 9}[i0] * v{k + 3}[i0] + {'x' * 60})" for k in range(5)],
    )
    told.tell("inlined", "\n".join(lines))
    groups = ["# rows: 64", *(f"    {line}" for line in lines[:3]), "# rows: 1", f"    {lines[4]}"]
    assert told.tell("groups", "\n".join(groups)).splitlines() == [
        "# rows: 64", "    # 3 lines as in inlined: v0[i0], v1[i0], v2[i0]", "# rows: 1", f"    {lines[4]}",
    ]  # fmt: skip
    nested = ["for i in range(3):", *(f"    {line}" for line in lines[:2]), f"{lines[2]}"]
    assert told.tell("other", "\n".join(nested)).splitlines() == [
        "for i in range(3):", "    # 2 lines as in inlined: v0[i0], v1[i0]", lines[2],
    ]  # fmt: skip


def test_a_function_with_a_remark_more_is_told_by_it():
    told, body = Abridged(), [f"    b[{k}] = a[{k}] * {'x' * 40}" for k in range(4)]
    told.tell("fused", "\n".join(["def k3(a, b):", *body]))
    told.tell("split", "\n".join(["def k7(a, b):", *body]))
    assert told.tell("tiled", "\n".join(["def k3(a, b):", "    # lanes along r", *body])).splitlines() == [
        "def k3(a, b):", "    # lanes along r", "    # 4 lines as in fused",
    ]  # fmt: skip
    other = "\n".join(["def k8(a, b):", *body])  # short: it is no riddle where each line stands
    assert told.tell("more", other) == other


def test_a_place_is_said_once():
    lines = [
        "a = f(b)  # float32[3]  x.py:7",
        "b = g(a)  # x.py:7",
        "c = g(a)  # float32[]  y.py:7",
    ]
    assert Abridged().tell("graph", "\n".join([*lines, lines[2], lines[0]])).splitlines() == [
        lines[0], "b = g(a)", lines[2], "c = g(a)  # float32[]", lines[0],
    ]  # fmt: skip


def test_times_are_a_tree_with_a_total():
    seconds = {"capture": 0.1, "codegen": 0.5, "fused": 0.2, "compiler": 0.25, "entry": 0.01}
    inside = {"fused": "codegen", "compiler": "codegen"}
    assert [(depth, name, round(s, 3)) for depth, name, s in tree(seconds, inside)] == [
        (0, "total", 0.61), (1, "capture", 0.1), (1, "codegen", 0.5), (2, "fused", 0.2),
        (2, "compiler", 0.25), (2, "other", 0.05), (1, "entry", 0.01),
    ]  # fmt: skip
    assert shown(seconds, inside).splitlines()[0].split() == ["total", "610.0", "ms"]


def test_inputs_have_the_shortest_names_that_tell_them_apart():
    group = "optimizer.param_groups[0]"
    names = {
        "x": "x",
        "batch[0]": "batch.0",
        "batch[1]": "batch.1",
        f"{group}['params'][0]": "params.0",
        f"{group}['params'][12]": "params.12",
        f"optimizer._slots[{group}['params'][0]]['exp_avg']": "params.0.exp_avg",
        f"optimizer._slots[{group}['params'][12]]['exp_avg']": "params.12.exp_avg",
        f"{group}['lr']": "lr",
        f"(1 - {group}['lr'] * {group}['weight_decay'])": "(1 - lr * weight_decay)",
        "model.blocks[0].norm.eps": "blocks.0.norm.eps",
        "model.blocks[1].norm.eps": "blocks.1.norm.eps",
        "model.norm.weight": "weight",
        "one.bias": "one.bias",
        "two.bias": "two.bias",
        "a.x": "a.x",
    }
    assert short_names([*names]) == [*names.values()]
    assert short_names(["f(a.x)", "f(b.x)"]) == ["f(a.x)", "f(b.x)"]


def test_a_print_fits_a_screen():
    stats = Stats(refusals=[f"unknown call: {'x' * 200}\n  at line {k}" for k in range(90)])
    lines = repr(stats).splitlines()
    assert len(lines) <= SCREEN[0] and max(map(len, lines)) <= SCREEN[1]
    assert "print(stats)" in lines[-1] and len(str(stats).splitlines()) > 180
    stats = Stats(recompiles=[Recompile("f", "x: expected 1, got 2")])
    assert repr(stats).endswith("expected 1, got 2")
    assert on_screen("short", "more") == "short"
