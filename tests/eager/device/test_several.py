"""Several devices: which is meant, copies between them and their order, what each has for itself."""

import threading

import numpy as np
import pytest

import eager
from eager import cuda, nn
from eager.device import places
from eager.device.protocol import DeviceFailure, DeviceUnavailable, RaceError, Region
from eager.nn import functional as F
from tests.helpers.device_training import train_halves

pytest.importorskip("triton.language")


@pytest.fixture(autouse=True)
def two(simulated, monkeypatch):
    """`"cuda:0"` and `"cuda:1"`."""
    monkeypatch.setenv("JITCAP_SIM_DEVICES", "2")
    return simulated, places.pool(1).device


def test_which_is_meant():
    assert (cuda.device_count(), cuda.current_device()) == (2, 0)
    x = eager.arange(3.0)
    assert [str(t.device) for t in (x.cuda(1), x.to(1), x.to("cuda:1"), x.to(device=1))] == [
        "cuda:1"
    ] * 4
    with cuda.device(1):
        assert (cuda.current_device(), str(x.cuda().device)) == (1, "cuda:1")
        assert str(eager.zeros(2, device="cuda").device) == "cuda:1"
        assert cuda.current_stream().device == eager.device("cuda:1")
        with cuda.device(None), cuda.device(-1), cuda.device_of(x):
            assert cuda.current_device() == 1
        with cuda.device_of(x.cuda(0)):
            assert cuda.current_device() == 0
        seen = []
        thread = threading.Thread(target=lambda: seen.append(cuda.current_device()))
        thread.start()
        thread.join()
        assert seen == [0]  # each thread means its own
    assert cuda.current_device() == 0
    cuda.set_device("cuda:1")
    cuda.set_device(-1)
    assert str(nn.Linear(2, 2, device="cuda").weight.device) == "cuda:1"
    assert str(nn.Linear(2, 2).cuda(0).weight.device) == "cuda:0"
    cuda.set_device(0)
    assert cuda.can_device_access_peer(0, 1)
    for call in (lambda: x.cuda(2), lambda: cuda.set_device(2), lambda: cuda.device(2)):
        with pytest.raises(
            DeviceUnavailable, match=r"'cuda:2' is not .*: there are cuda:0 to cuda:1"
        ):
            call()


def test_copies_go_from_one_to_the_other(two):
    x = eager.arange(6.0).reshape(2, 3).cuda(0)
    before = two[0].counters()
    y = x.to("cuda:1")
    assert (y.aval.device, y.stride(), y.tolist()) == ("cuda:1", (3, 1), x.tolist())
    counted = two[0].counters()
    assert counted["bytes_to_peers"] - before["bytes_to_peers"] == 24
    assert counted["synchronizations"] - before["synchronizations"] == 1  # of x.tolist() alone
    assert x.t().to("cuda:1").stride() == (1, 3)
    assert x[:, 1].to("cuda:1").tolist() == [1, 4]
    assert x.to("cuda:1", eager.int64).tolist() == [[0, 1, 2], [3, 4, 5]]
    y.zero_()
    y[:, 1].copy_(x[:, 0])
    y[0] = x[1]
    assert y.tolist() == [[3, 4, 5], [0, 3, 0]]
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert eager.zeros(0, device="cuda:0").to("cuda:1").shape == (0,)


def test_a_copy_waits_on_both_sides_and_a_missing_wait_is_a_race(two):
    sides = [cuda.Stream(0), cuda.Stream(1)]
    with cuda.stream(sides[0]):
        assert cuda.current_device() == 0
        x = eager.ones(4, device="cuda:0") + 1
        with cuda.stream(sides[1]):
            assert cuda.current_device() == 1
            y = x.to("cuda:1") * 3  # of what sides[0] computes, on sides[1]
            x.add_(1)  # behind the copy
            assert y.tolist() == [6] * 4
    region = x._array.region()
    peer = Region(y._array.address, 16, writes=True)
    with pytest.raises(
        RaceError, match=r"a copy to cuda:1 .* on stream 0 reads .* on stream 1 writes"
    ):
        two[0].copy_to(two[1], peer, region, two[0].main)  # nobody waited for sides[0]
    cuda.current_stream(0).wait_stream(sides[0])
    two[0].copy_to(two[1], peer, region, two[0].main)
    with pytest.raises(RaceError, match=r"add.* on stream 1 of cuda:1 reads .* that a copy to cuda:1"), \
            cuda.stream(sides[1]):  # fmt: skip
        y + 1  # nobody waited for the copy
    sides[1].wait_stream(cuda.current_stream(0))
    with cuda.stream(sides[1]):
        assert (y + 1).tolist() == [4] * 4


def test_events_are_of_the_stream_that_records_them(two):
    event, other = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    assert event.query()
    assert event.device is None
    event.wait()
    event.synchronize()
    with pytest.raises(RuntimeError, match="must be recorded"):
        event.elapsed_time(other)
    event.record(cuda.current_stream(1))
    assert str(event.device) == "cuda:1"
    event.wait(cuda.current_stream(0))
    with pytest.raises(RuntimeError, match="cuda:1 does not match .* cuda:0"):
        event.record()
    other.record()
    cuda.synchronize(0)
    cuda.synchronize(1)
    with pytest.raises(RuntimeError, match="no clock"):
        event.elapsed_time(other)
    with pytest.raises(DeviceFailure, match="an event of cuda:0 on a stream of cuda:1"):
        two[1].main.record(two[0].event())


def test_each_has_memory_counters_and_waits_of_its_own(two):
    start = [cuda.memory_allocated(i) for i in (0, 1)]
    x = eager.ones(1024, device="cuda:1")
    assert [cuda.memory_allocated(i) - n for i, n in zip((0, 1), start, strict=True)] == [0, 4096]
    assert cuda.memory_summary("cuda:1").startswith("cuda:1, ")
    y = eager.ones(8, device="cuda:0")
    cuda.synchronize(0)
    assert two[0].main.query()
    assert not two[1].main.query()
    cuda.synchronize(x.device)
    assert two[1].main.query()
    two[1].faults.memory = 1 << 16
    with pytest.raises(cuda.OutOfMemoryError, match="no memory on cuda:1"):
        eager.ones(1 << 20, device="cuda:1")
    assert (y.to(1) + x[:8]).tolist() == [2] * 8
    other = Region(x._array.address, 64)
    with pytest.raises(DeviceFailure, match="illegal memory access"):
        two[0].clear(other, two[0].main)  # the memory of the other


def test_a_fault_of_one_is_not_the_others(two):
    x = eager.ones(4, device="cuda:0")
    two[1].faults.execution = 0
    y = eager.ones(4, device="cuda:1") + 1
    with pytest.raises(DeviceFailure, match="failed"):
        y.tolist()
    assert (x + 1).tolist() == [2] * 4
    with pytest.raises(DeviceFailure, match="cuda:1 takes no more work"):
        y.add_(1)


def test_each_has_a_generator():
    eager.manual_seed(5)
    draws = [eager.rand(4, device=f"cuda:{i}").tolist() for i in (0, 1)]
    assert draws[0] == draws[1]
    states = cuda.get_rng_state_all()
    after = [eager.rand(4, device=f"cuda:{i}").tolist() for i in (0, 1)]
    with cuda.device(1):
        cuda.manual_seed(5)
    assert eager.rand(4, device="cuda:1").tolist() == draws[1]
    assert eager.rand(4, device="cuda:0").tolist() != draws[0]
    cuda.set_rng_state_all(states)
    assert [eager.rand(4, device=f"cuda:{i}").tolist() for i in (0, 1)] == after
    cuda.manual_seed_all(5)
    assert [eager.rand(4, device=f"cuda:{i}").tolist() for i in (0, 1)] == draws


def test_they_do_not_mix():
    x, y = eager.ones(3, device="cuda:0"), eager.ones(3, device="cuda:1")
    texts = [
        lambda: x + y, lambda: x.add_(y), lambda: eager.cat([x, y]), lambda: eager.where(x > 0, x, y),
        lambda: x @ y, lambda: x + y.sum(), lambda: x.index_add(0, eager.tensor([0, 1, 2]).cuda(1), x),
        lambda: F.linear(x, y.unsqueeze(0)),
    ]  # fmt: skip
    for mixed in texts:
        with pytest.raises(RuntimeError, match=r"on the same device, but found at least two devices: "
                           r".* on cuda:0.* on cuda:1.* \(at .*test_several\.py:\d+\)"):  # fmt: skip
            mixed()
    assert (x * eager.tensor(2.0)).tolist() == [2] * 3  # a number of the CPU may stand beside them


def test_what_went_wrong_before_a_copy_is_told_behind_it():
    table = eager.ones(3, 2, device="cuda:0")
    found = table[eager.tensor([0, 7]).cuda(0)].sum().to("cuda:1") * 2
    with pytest.raises(IndexError, match=r"out of .*test_several\.py"):
        found.item()


def test_tensors_are_saved_with_their_device(tmp_path):
    x = eager.arange(3.0).cuda(1)
    eager.save({"x": x}, tmp_path / "x.pt")
    assert str(eager.load(tmp_path / "x.pt")["x"].device) == "cuda:1"
    assert str(eager.load(tmp_path / "x.pt", map_location="cuda:0")["x"].device) == "cuda:0"
    moved = eager.load(tmp_path / "x.pt", map_location={"cuda:1": "cuda:0"})["x"]
    assert (str(moved.device), moved.tolist()) == ("cuda:0", [0, 1, 2])


def close(found, expected):
    pairs = zip(found, expected, strict=True)
    assert all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in pairs)


def test_a_model_on_two_devices_trains_as_on_the_cpu(two):
    losses, values, _ = train_halves("cuda:0", "cuda:1")
    expected_losses, expected, _ = train_halves("cpu", "cpu")
    close(losses, expected_losses)
    close(values, expected)
    assert two[0].counters()["copies_to_peers"] == two[1].counters()["copies_to_peers"] == 4
