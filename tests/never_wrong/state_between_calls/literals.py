"""Numbers that have no literal, as keys, defaults, effects and results."""

import datetime
import fractions
import math
import pathlib
import uuid

import numpy as np

import eager
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, rows, scene
from tests.never_wrong.scene_subjects import Color, Flags, Mode, Point


@case("literals")
def infinite_keys_and_defaults():
    state = {math.inf: 1, -math.inf: 2}

    def step(x, top=math.inf):
        state[math.inf] += 1
        state[-math.inf] = top
        return x * state[math.inf], min(top, 3)

    return scene(step, nothing, observe=lambda: dict(state))


@case("literals")
def nan_in_a_container():
    nan = math.nan
    items = [nan, 1.0]

    def step(x):
        return nan in items, items.index(nan), items == [nan, 1.0], items.count(nan), nan == nan

    return scene(step, lambda: items.__setitem__(0, float("nan")))


@case("literals")
def nan_is_stored_and_returned():
    state = {"best": math.nan}

    def step(x):
        old = state["best"]
        state["best"] = math.nan if old != old else 1.0
        return old, [math.inf, -math.inf, math.nan]

    return scene(step, lambda: state.update(best=2.0), nothing, observe=lambda: dict(state))


@case("literals")
def a_nan_argument_finds_its_version_again():
    log = []

    def step(x, v):
        log.append(v)
        return x * v, v != v

    x = eager.ones(1)
    return rows(
        step, (x, math.nan), (x, math.nan), (x, 1.0), (x, math.inf), observe=lambda: list(log)
    )


@case("literals")
def infinity_decides():
    state = {"best": math.inf, "step": 0}

    def step(x):
        loss = 3.0 - state["step"]
        state["step"] += 1
        if loss < state["best"]:
            state["best"] = loss
        return state["best"], x * state["best"]

    return scene(
        step, nothing, lambda: state.update(best=-math.inf), nothing, observe=lambda: dict(state)
    )


@case("literals")
def huge_ints_are_stored():
    state = {"n": 10**40, 10**30: "key"}

    def step(x):
        state["n"] = state["n"] * 3 + 1
        return state[10**30], state["n"] % 7, 10**25 in state

    return scene(step, nothing, nothing, observe=lambda: dict(state))


@case("literals")
def complex_numbers_as_keys_and_effects():
    state = {1j: 2}

    def step(x):
        state[complex(0, math.inf)] = complex(math.nan, -0.0)
        state[1j] *= 1j
        return state[1j], 1j.imag

    return scene(step, nothing, observe=lambda: [repr(v) for v in state.items()])


@case("literals")
def numpy_scalars_as_keys_and_effects():
    state = {np.int64(3): "a", "seen": []}

    def step(x):
        state["seen"].append(np.float32(0.1))
        state[np.int64(4)] = np.float64(math.inf)
        return state[3], state[np.int64(3)], 4 in state

    return scene(step, nothing, observe=lambda: dict(state))


@case("literals")
def a_dtype_and_a_device_as_keys():
    table = {eager.float32: 1, "cpu": 2, eager.device("cpu"): 3}

    def step(x):
        table["last"] = x.dtype
        table[x.device] = table.get(x.dtype, 0)
        return table[x.dtype], table[eager.device("cpu")]

    return scene(step, nothing, observe=lambda: [str(v) for v in table.items()])


@case("literals")
def fractions_and_dates():
    state = {"f": fractions.Fraction(1, 3), "d": datetime.date(2020, 1, 31)}

    def step(x):
        state["f"] += fractions.Fraction(1, 6)
        state["d"] += datetime.timedelta(days=1)
        return x * float(state["f"]), state["d"].isoformat(), state["f"].numerator

    return scene(
        step,
        nothing,
        lambda: state.update(f=fractions.Fraction(1)),
        observe=lambda: [repr(v) for v in state.values()],
    )


@case("literals")
def paths_and_uuids():
    state = {"p": pathlib.PurePosixPath("/a/b.txt"), "u": uuid.UUID(int=5)}

    def step(x):
        return (
            state["p"].stem,
            (state["p"].parent / "c").as_posix(),
            state["u"].int,
            str(state["u"]),
        )

    return scene(
        step,
        lambda: state.update(p=pathlib.PurePosixPath("/x/y")),
        lambda: state.update(u=uuid.UUID(int=9)),
    )


@case("literals")
def text_with_every_character():
    state = {"t": "'\"\\\n\t\0{}\ud800é"}

    def step(x):
        state["t"] += "{x}\\N"
        return state["t"], len(state["t"]), b"\x00'\"\\" + state["t"][:3].encode()

    return scene(
        step,
        nothing,
        lambda: state.update(t="{}"),
        observe=lambda: state["t"].encode("utf-8", "surrogatepass"),
    )


@case("literals")
def ellipsis_and_notimplemented():
    state = {...: NotImplemented}

    def step(x):
        state["v"] = ...
        return state[...], x[..., 0], state["v"] is Ellipsis

    return scene(step, lambda: state.update({...: 1}), observe=lambda: dict(state))


@case("literals")
def the_result_is_one_of_many_kinds():
    def step(x):
        return {
            math.inf: {1, 2},
            "r": range(3),
            "s": slice(1, None),
            (1, (math.nan,)): frozenset([1]),
            None: b"b",
            1j: [np.float32(1.5), Color.RED, Flags.A | Flags.B, Point(x)],
            True: Mode.TEST,
        }

    return scene(step, nothing)
