"""`eager.profiler`: PyTorch's names, over what the recorder notes."""

import json

import pytest

import eager
from eager import profiler
from eager.autograd import profiler as autograd_profiler
from eager.base.recorder import recorder
from eager.profiler import ProfilerAction, ProfilerActivity, profile, record_function, schedule
from jitcap import jit


def product(n=8):
    return (eager.ones(n, 4) @ eager.ones(4, n)).relu()


def test_events_and_averages(tmp_path):
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=True, with_flops=True,
        profile_memory=True,
    ) as found:  # fmt: skip
        with record_function("outer"):
            product()
            with record_function("inner"):
                product()
        product(16)
    rows = {row.key: row for row in found.key_averages()}
    assert {"outer", "inner", "dot"} <= set(rows)
    assert (rows["dot"].count, rows["outer"].count) == (3, 1)
    assert rows["dot"].flops == 2 * 4 * (64 + 64 + 256)
    assert rows["dot"].self_cpu_memory_usage == 4 * (64 + 64 + 256)
    assert rows["outer"].cpu_time_total >= rows["inner"].cpu_time_total
    inside = sum(e.cpu_time_total for e in found.events() if e.name in ("inner", "dot", "relu"))
    assert rows["outer"].self_cpu_time_total < rows["outer"].cpu_time_total
    assert rows["outer"].self_cpu_time_total + inside > 0
    shapes = {r.input_shapes for r in found.key_averages(group_by_input_shape=True)}
    assert {"8x4 4x8", "16x4 4x16"} <= shapes
    stacks = [r for r in found.key_averages(group_by_stack_n=2) if r.key == "dot"]
    assert len(stacks) == 3
    assert all(r.stack[0].startswith(__file__) for r in stacks)
    _tables_and_files(found, tmp_path)


def _tables_and_files(found, tmp_path):
    text = found.key_averages().table(sort_by="count", row_limit=1, header="all")
    assert text.splitlines()[0] == "all"
    assert "FLOPs" in text
    assert len(text.splitlines()) == 3
    with pytest.raises(ValueError, match="there are self_cpu_time_total"):
        found.key_averages().table(sort_by="cuda_time_total")
    with pytest.raises(NotImplementedError, match="outer ones first"):
        found.key_averages().table(top_level_events_only=True)
    total = found.key_averages().total_average()
    assert total.count == len(found.events())
    found.export_stacks(str(tmp_path / "stacks.txt"))
    found.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [e["ph"] for e in events].count("X") == len(found.events())
    memory = [e["args"] for e in events if e["name"] == "[memory]"]
    assert sum(m["Bytes"] for m in memory) == memory[-1]["Total Allocated"] == 0  # all are gone
    assert max(m["Total Allocated"] for m in memory) >= 4 * 256
    found.export_memory_timeline(str(tmp_path / "memory.json"))
    times, sizes = json.loads((tmp_path / "memory.json").read_text())
    assert times == sorted(times) and sizes == [m["Total Allocated"] for m in memory]
    with pytest.raises(ValueError, match="json"):
        found.export_memory_timeline(str(tmp_path / "memory.html"))


def test_a_function_with_a_name_may_call_itself():
    @record_function("recursive")
    def down(n):
        return n and down(n - 1)

    with profile() as found:
        down(2)
    events = [e for e in found.events() if e.kind == "range"]
    pairs = zip(events, events[1:], strict=False)
    assert len(events) == 3
    assert all(a.start < b.start and b.end < a.end for a, b in pairs)


def test_a_schedule_records_its_active_steps(tmp_path):
    ready = []

    def keep(p):
        ready.append(sorted(e.name for e in p.events() if e.kind == "range"))
        profiler.tensorboard_trace_handler(str(tmp_path), "worker")(p)

    plan = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    assert [plan(i).value for i in range(10)] == [0, 0, 1, 2, 3, 0, 1, 2, 3, 0]
    with profile(schedule=plan, on_trace_ready=keep) as found:
        for i in range(12):
            with record_function(f"step {i}"):
                product()
            found.step()
    assert ready == [["step 3", "step 4"], ["step 7", "step 8"]]
    assert len(list(tmp_path.glob("worker.*.pt.trace.json"))) == 2
    assert recorder.options == []
    with pytest.raises(ValueError, match="active is at least 1"):
        schedule(wait=0, warmup=0, active=0)
    assert ProfilerAction.NONE is plan(100)


def test_jitted_functions_show_their_kernels():
    @jit
    def step(x):
        with record_function("inside"):
            return (x.exp() * 2).sum()

    with profile() as first:
        step(eager.ones(9))
    assert "inside" not in {e.name for e in first.events()}
    with autograd_profiler.profile(enabled=True) as found:
        with autograd_profiler.record_function("all"):
            step(eager.ones(9))
    events = {e.kind: e for e in found.events()}
    assert events["call"].start <= events["kernel"].start <= events["kernel"].end
    assert events["range"].end >= events["call"].end
    with profile(enabled=False) as off:
        product()
    assert off.events() == off.key_averages() == []


def test_options_that_would_do_nothing_raise():
    for options in ({"with_modules": True}, {"use_cuda": True}, {"acc_events": True}):
        with pytest.raises(NotImplementedError, match="jitcap.profile"):
            profile(**options)
    with pytest.raises(TypeError, match="unexpected keyword"):
        profile(with_shape=True)
    with profile() as found:
        product()
    for call, what in (
        (lambda: found.key_averages(group_by_input_shape=True), "record_shapes=True"),
        (lambda: found.key_averages(group_by_stack_n=3), "with_stack=True"),
        (lambda: found.export_memory_timeline("x.json"), "profile_memory=True"),
        (lambda: found.export_stacks("stacks"), "with_stack=True"),
    ):
        with pytest.raises(RuntimeError, match=what):
            call()
    found.start()
    with pytest.raises(RuntimeError, match="runs already"):
        found.start()
    found.stop()
