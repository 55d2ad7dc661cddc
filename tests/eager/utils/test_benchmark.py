"""Timers, comparisons, and the description of the machine."""

import eager
from eager.base.config import config
from eager.utils import benchmark, collect_env


def test_times_of_a_statement():
    threads, seen, now = eager.get_num_threads(), [], [0.0]
    was_set = "threads" in config._assigned

    def work():
        seen.append(eager.get_num_threads())
        now[0] += 2e-4  # by the clock of this test

    timer = benchmark.Timer(
        "f()", setup="n = 1", globals={"f": work},
        timer=lambda: now[0], label="calls", sub_label="f", description="ours", num_threads=3,
    )  # fmt: skip
    found = timer.timeit(5)
    assert len(seen) == 2 + 5
    assert set(seen) == {3}
    assert eager.get_num_threads() == threads
    assert ("threads" in config._assigned) is was_set  # else the environment is not asked any more
    assert abs(found.median - 2e-4) < 1e-9
    assert found.number_per_run == 5
    assert found.label == "calls"
    assert "calls: f" in repr(found)
    assert "200.00 us" in repr(found)
    found = timer.blocked_autorange(min_run_time=0.02)
    assert sum(found.raw_times) >= 0.02
    assert found.iqr < 1e-9
    assert len(timer.adaptive_autorange(min_run_time=0.001).times) >= 3
    calls = []
    benchmark.Timer(lambda: calls.append(1), timer=lambda: now[0]).timeit(3)
    assert len(calls) == 5


def test_a_comparison():
    def measured(sub_label, description, seconds):
        task = benchmark.TaskSpec("x", "", "sums", sub_label, description, None, 1)
        return benchmark.Measurement(10, [10 * seconds], task)

    table = benchmark.Compare(
        [
            measured("8x8", "plain", 4e-6),
            measured("8x8", "jit", 1.5e-6),
            measured("9x9", "jit", 2e-6),
        ]
    )
    table.extend_results([measured("9x9", "plain", 8e-6)])
    table.trim_significant_figures()
    table.colorize(rowwise=True)
    title, head, *rows, unit = str(table).splitlines()
    assert "[ sums ]" in title
    assert head.split() == ["plain", "jit"]
    assert [row.split()[-2:] for row in rows] == [["4", "1.5*"], ["8", "2*"]]
    assert "microseconds" in unit
    merged = benchmark.Measurement.merge([measured("a", "b", 1.0), measured("a", "b", 3.0)])
    assert [m.mean for m in merged] == [2.0]
    assert benchmark.select_unit(3e-4) == ("us", 1e-6)


def test_the_machine(capsys):
    collect_env.main()
    printed = capsys.readouterr().out
    for part in ("jitcap version", "Python version", "CPU", "Threads", "numpy=="):
        assert part in printed
    assert collect_env.get_env_info().packages
