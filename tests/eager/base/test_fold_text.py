"""Lines that repeat are a loop, and the text means the same."""

import random

from eager.base.fold_text import Fixed, fold_text
from tests.helpers.work import calls_made


class Members(dict):
    """A family, of which several in a row are a slice."""

    def __getitem__(self, key):
        if isinstance(key, slice):
            return [self[k] for k in range(key.start, key.stop)]
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        if isinstance(key, slice):
            self |= zip(range(key.start, key.stop), value, strict=True)
        else:
            super().__setitem__(key, value)


def run(text, families, **values):
    """The values by name of a text, whose operations are recorded."""
    scope = {"op": lambda *given: ("op", *given), **values}
    scope |= {name: Members() for name in families.values()}
    exec(text, scope)
    found = {}
    for (before, after), name in families.items():
        found |= {f"{before}{n}{after}": value for n, value in scope[name].items()}
    own = {k: v for k, v in scope.items() if k[0] in "vw" and k not in families.values()}
    return found | own


def layers(rng):
    """The lines of a stack of layers with a head, a tail and perhaps loops inside."""
    lines, v = ["v0 = op()"], 0
    for k in range(rng.randrange(4)):
        v += 1
        lines.append(f"v{v} = op(v{v - 1}, {k * k})")
    count = rng.randrange(2, 9)
    body = [(rng.randrange(1, 3), rng.randrange(5), rng.randrange(3)) for _ in range(count)]
    weights = rng.randrange(1, 4)
    for layer in range(rng.randrange(2, 9)):
        w = weights * layer
        lines += [f"w{w + k}_x = op({k})" for k in range(weights)]
        for back, constant, kind in body:
            v += 1
            other = f"w{w + constant % weights}_x" if kind else f"{7 * layer + constant} * 2"
            lines += [f"v{v} = op(v{max(v - back, 0)}, {other}, 'v1', 0.5)  # v1 {constant}"]
        if rng.random() < 0.3:
            for _ in range(rng.randrange(3, 30)):
                v += 1
                lines.append(f"v{v} = op(v{v - 1})")
    return [*lines, f"v{v + 1} = op(v{v}, v0)"]


def test_the_folded_text_means_the_same(monkeypatch):
    monkeypatch.setattr("eager.base.fold_text.SAVED", 100)
    rng, shorter = random.Random(0), 0
    for _ in range(150):
        lines = layers(rng)
        folded = fold_text(lines)
        assert run(folded.text, folded.families) == run("\n".join(lines), {})
        shorter += folded.text.count("\n") + 1 < len(lines) / 2
    assert shorter > 40, shorter


def wide(rng):
    """The lines of layers whose calls take and give several values."""
    lines, v, takes, gives = [], 30, rng.randrange(2, 9), rng.randrange(2, 9)
    lines += [f"v{k} = op({k})" for k in range(v)]
    step = rng.choice([1, 1, 2, -1])
    for _ in range(rng.randrange(3, 8)):
        given = [f"v{v - 20 + step * k}" for k in range(takes)]
        rng.random() < 0.2 and rng.shuffle(given)
        made = ", ".join(f"v{v + k}" for k in range(gives))
        lines.append(f"{made} = ops({gives}, {', '.join(given)}, w, key={v})  # {gives} values")
        v += gives
        lines.append(f"v{v} = op(v{v - 1}, v{v - 2})")
        v += 1
    return lines


def test_members_in_a_row_are_a_slice(monkeypatch):
    monkeypatch.setattr("eager.base.fold_text.SAVED", 100)
    rng, sliced = random.Random(0), 0
    given = {
        "w": 7,
        "ops": lambda count, *given, key: [("ops", k, given, key) for k in range(count)],
    }
    for _ in range(200):
        lines = wide(rng)
        folded = fold_text(lines, slices=True)
        found = run(folded.text, folded.families, **given)
        assert found == run("\n".join(lines), {}, **given), folded.text
        sliced += ":" in "".join(line for line in folded.text.split("\n") if "ops(" in line)
    assert sliced > 60, sliced


def test_a_text_without_repetition_stays():
    lines = ["v1 = op(v0)", "v2 = op(v1, v1)", "return v2"]
    folded = fold_text(lines)
    assert (folded.text, folded.families) == ("\n".join(lines), {})
    assert fold_text([]).text == ""


def test_names_and_numbers():
    lines = [
        f"x{3 * k}_y = f(x{3 * k - 3}_y, {20 - k}, '{5}', {0.5}, i)  # 7" for k in range(1, 19)
    ]
    (line,) = fold_text(lines).text.splitlines()[1:]
    assert line == "    x_y[3*j + 3] = f(x_y[3*j], 19 - j, '5', 0.5, i)  # 7"


def test_shapes_of_a_few_rounds_may_differ():
    shapes = ["[96, 32]", "[96]", "[32, 32]", "[32]"]
    lines = [f"v{2 * k + j} = update(v{2 * k}, v{40 + k}, {'beta' * 20})  # float32{shape}  x.py:7"
             for k, shape in enumerate(shapes) for j in (0, 1)]  # fmt: skip
    beta = "beta" * 20
    assert fold_text(lines).text.splitlines() == [
        "for i in range(4):",
        f"    v[2*i] = update(v[2*i], v[i + 40], {beta})  # float32{' | '.join(shapes)}  x.py:7",
        f"    v[2*i + 1] = update(v[2*i], v[i + 40], {beta})  # float32[...]  x.py:7",
    ]
    many = [f"v{k} = update(v{k}, {beta})  # float32[{k}]" for k in range(1, 40)]
    assert len(fold_text(many).text.splitlines()) == 4 * 2 - 1  # 12, 12, 12 and 3 rounds


def test_what_is_fixed_stays():
    inner = Fixed("def f():\n    v1 = 3")
    lines = [inner, *(f"v{k} = op(v{k - 1})" for k in range(1, 40)), inner]
    text = fold_text(lines).text
    assert text.splitlines()[:2] == text.splitlines()[-2:] == ["def f():", "    v1 = 3"]


def test_loops_in_c():
    lines = [f"  k1(b[{3 * k}], arena + {64 * k});" for k in range(40)]
    assert fold_text(lines, braces=True).text.splitlines() == [
        "  for (int i = 0; i < 40; i++) {", "    k1(b[3*i], arena + (64*i));", "  }",
    ]  # fmt: skip


def test_many_lines_take_little_time():
    def lines(n):
        return [f"v{k} = op(v{k - 1}, {k * k % 7}, {k * k % 5})" for k in range(n)]

    few, many = (calls_made(lambda n=n: fold_text(lines(n))) for n in (2000, 8000))
    assert many < 5 * few
