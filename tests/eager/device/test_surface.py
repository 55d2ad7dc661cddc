"""PyTorch's names for devices, on the simulated GPU: where tensors go, stay and come back."""

import copy
import pickle

import numpy as np
import pytest

import eager
from eager import cuda, nn
from eager.device import places
from eager.device.protocol import DeviceUnavailable, RaceError
from eager.utils.data import DataLoader, TensorDataset
from eager.utils.tensorboard import SummaryWriter

pytest.importorskip("triton.language")


def test_there_and_back(simulated):
    x = eager.arange(6.0).reshape(2, 3)
    y = x.to("cuda")
    assert (str(y.device), y.is_cuda, y.is_cpu, y.get_device()) == ("cuda:0", True, False, 0)
    assert (y.shape, y.stride(), y.dtype, y.aval.device) == (x.shape, x.stride(), x.dtype, "cuda:0")
    assert y.to("cuda") is y.cuda() is y.to("cuda:0") is y.to(y)
    assert x.cuda(0).tolist() == y.cpu().tolist() == x.tolist()
    assert y.t().cpu().stride() == (1, 3)
    assert y[1, 2].item() == 5.0
    assert float(y.sum()) == 15.0
    assert bool((y >= 0).all())
    assert repr(y) == "tensor([[0., 1., 2.],\n        [3., 4., 5.]], device='cuda:0')"
    assert simulated.counters()["bytes_to_device"] == 2 * 24


def test_the_host_gets_no_values_by_accident():
    x = eager.ones(3, device="cuda")
    for reach in (lambda: x.numpy(), lambda: np.asarray(x), lambda: np.add(x, 1)):
        with pytest.raises(TypeError, match=r"can't convert cuda:0 device type.*Tensor\.cpu\(\)"):
            reach()
    with pytest.raises(BufferError, match="cpu"):
        x.__dlpack_device__()
    for call in (x.untyped_storage, x.storage):
        with pytest.raises(NotImplementedError, match=r"\.cpu\(\)"):
            call()


def test_constructors_make_them_there(simulated):
    before = simulated.counters()["copies_to_device"]
    made = [
        eager.zeros(2, 3, device="cuda"), eager.ones(4, device="cuda:0"),
        eager.full((2,), 7, device=eager.device("cuda")), eager.arange(5, device="cuda"),
        eager.linspace(0, 1, 5, device="cuda"), eager.eye(3, device="cuda"),
        eager.randn(4, device="cuda"), eager.randint(0, 9, (4,), device="cuda"),
    ]  # fmt: skip
    x = made[0]
    made += [eager.zeros_like(x), x.new_ones(2), x.new_full((2,), 3.0), eager.rand_like(x)]
    assert {str(t.device) for t in made} == {"cuda:0"}
    assert simulated.counters()["copies_to_device"] == before
    assert str(eager.tensor([1, 2], device="cuda").device) == "cuda:0"
    assert eager.zeros_like(x, device="cpu").is_cpu
    assert made[3].tolist() == [0, 1, 2, 3, 4]
    assert np.allclose(made[4].cpu(), np.linspace(0, 1, 5))


def test_a_default_device_is_the_threads_and_ends_with_its_block():
    with eager.device("cuda"):
        assert eager.zeros(2).is_cuda
        assert eager.tensor([1.0]).is_cuda
        assert eager.randn(2).is_cuda
        assert nn.Linear(2, 2).weight.is_cuda
        with eager.device("cpu"):
            assert eager.zeros(2).is_cpu
        assert str(eager.get_default_device()) == "cuda"
    assert eager.zeros(2).is_cpu
    eager.set_default_device("cuda")
    try:
        assert eager.ones(2).is_cuda
    finally:
        eager.set_default_device(None)
    assert eager.ones(2).is_cpu


def test_devices_do_not_mix_but_for_numbers():
    x, y = eager.ones(2, 3, device="cuda"), eager.ones(3)
    with pytest.raises(RuntimeError, match=r"at least two devices: add\(\) was given operand 0 "
                       r"float32\[2, 3\] on cuda:0, operand 1 float32\[3\] on cpu \(at .*"
                       r"test_surface\.py:\d+\)\. Move one of them"):  # fmt: skip
        x + y
    assert (x * eager.tensor(2.0) + 1).tolist() == [[3.0] * 3] * 2
    assert (x + eager.tensor(2, dtype=eager.float64)).dtype is eager.float32
    y.copy_(x[0] * 4)
    assert y.tolist() == [4.0] * 3
    x[1] = eager.zeros(3)
    x[0, 1:].copy_(eager.tensor([5.0, 6.0]))
    assert x.tolist() == [[1.0, 5.0, 6.0], [0.0] * 3]
    p = eager.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="different device: cuda:0"):
        p.grad = x[0, :2].detach()


def test_gradients_cross():
    x = eager.arange(3.0).requires_grad_()
    y = x.to("cuda")
    assert "Copy" in y.grad_fn.name()
    (y.exp() * 2).sum().backward()
    assert x.grad.is_cpu
    assert np.allclose(x.grad, 2 * np.exp(np.arange(3.0)))
    z = eager.arange(3.0, device="cuda").requires_grad_()
    (z * z).cpu().sum().backward()
    assert z.grad.is_cuda
    assert z.grad.tolist() == [0, 2, 4]


def test_modules_optimizers_and_their_state_go_along():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    weight = model[0].weight
    optimizer = eager.optim.Adam(model.parameters(), lr=0.1)  # before the model moves
    assert model.to("cuda", non_blocking=True) is model
    assert model[0].weight is weight
    assert weight.is_cuda
    assert all(b.is_cuda for b in model.buffers())
    model(eager.ones(5, 3, device="cuda")).square().mean().backward()
    optimizer.step()
    state = optimizer.state[weight]
    assert state["exp_avg"].is_cuda
    again = eager.optim.Adam(model.parameters(), lr=0.1)
    again.load_state_dict(optimizer.state_dict())
    assert again.state[weight]["exp_avg_sq"].is_cuda
    twin = copy.deepcopy(model)
    assert twin[0].weight.is_cuda
    assert pickle.loads(pickle.dumps(weight.detach())).tolist() == weight.tolist()
    assert model.cpu()[0].weight.is_cpu


@pytest.mark.parametrize("name", ["x.pt", "x.safetensors"])
def test_save_and_load(tmp_path, name, monkeypatch):
    x = eager.arange(6.0, device="cuda")
    path = tmp_path / name
    tensors = {"x": x} if name.endswith("safetensors") else {"x": x, "half": x[2:4], "w": x.cpu()}
    eager.save(tensors, path)
    back = eager.load(path)
    assert back["x"].tolist() == x.tolist()
    if "half" in tensors:
        assert back["x"].is_cuda
        assert back["w"].is_cpu
        assert back["half"]._array.buffer is back["x"]._array.buffer
    assert eager.load(path, map_location="cuda")["x"].is_cuda
    assert eager.load(path, map_location="cpu")["x"].is_cpu
    assert eager.load(path, map_location={"cuda:0": "cpu"})["x"].is_cpu
    monkeypatch.delenv("JITCAP_DEVICE")
    places.close()
    if "half" in tensors:
        with pytest.raises(RuntimeError, match=r"saved on 'cuda:0'.*map_location='cpu'"):
            eager.load(path)
    assert eager.load(path, map_location="cpu")["x"].tolist() == list(range(6))


def test_generators_of_devices_draw_the_same_numbers():
    eager.manual_seed(7)
    here = [eager.rand(5), eager.randint(0, 1 << 40, (3,)), eager.randn(5, dtype=eager.float64)]
    there = [
        eager.rand(5, device="cuda"), eager.randint(0, 1 << 40, (3,), device="cuda"),
        eager.randn(5, dtype=eager.float64, device="cuda"),
    ]  # fmt: skip
    for a, b in zip(here, there, strict=True):
        assert np.array_equal(a, b.cpu())
    cuda.manual_seed((1 << 64) - 3)
    host = eager.Generator().manual_seed((1 << 64) - 3)
    assert np.array_equal(eager.rand(4, device="cuda").cpu(), eager.rand(4, generator=host))
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found"):
        eager.rand(2, generator=host, device="cuda")


def test_streams_events_and_a_missing_wait():
    side, start, end = cuda.Stream(), cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    x = eager.ones(1000, device="cuda")
    start.record()
    with cuda.stream(side):
        assert cuda.current_stream() == side != cuda.default_stream()
        with pytest.raises(RaceError, match=r"test_surface\.py:\d+\).*wait_stream"):
            x + 1
        side.wait_stream(cuda.default_stream())
        y = x + 1
    with pytest.raises(RaceError):
        y.sum()
    cuda.current_stream().wait_stream(side)
    end.record()
    assert y.sum().item() == 2000
    cuda.synchronize()
    assert 0 < start.elapsed_time(end) < 1


def test_pinned_memory_is_copied_meanwhile():
    x = eager.ones(4).pin_memory()
    assert x.is_pinned()
    assert not eager.ones(4).is_pinned()
    assert x.pin_memory() is x
    y = x.to("cuda", non_blocking=True)
    x.add_(1)
    with pytest.raises(RaceError, match="pinned"):
        y.tolist()


def test_a_loader_pins_its_batches():
    data = TensorDataset(eager.arange(6.0), eager.arange(6))
    for x, y in DataLoader(data, batch_size=3, pin_memory=True):
        assert x.is_pinned() and y.is_pinned()
        assert x.to("cuda", non_blocking=True).tolist() == x.tolist()
    (batch,) = DataLoader([{"x": eager.ones(2)}], pin_memory=True)
    assert batch["x"].is_pinned()


def test_memory_is_told(simulated):
    assert cuda.memory_allocated() == 0
    x = eager.zeros(1 << 18, device="cuda")
    assert cuda.memory_allocated() == 1 << 20
    del x
    assert cuda.memory_allocated() == 0
    assert cuda.max_memory_allocated() == cuda.memory_reserved() == 1 << 20
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()
    assert cuda.memory_reserved() == cuda.max_memory_allocated() == 0
    assert "a model's" in cuda.memory_summary()
    free, total = cuda.mem_get_info()
    assert free == total == cuda.get_device_properties().total_memory
    assert "simulated" in cuda.get_device_name()
    assert cuda.get_device_capability() == (9, 0)
    assert (cuda.device_count(), cuda.current_device(), cuda.is_bf16_supported()) == (1, 0, True)
    assert str(eager.accelerator.current_accelerator()) == "cuda"
    simulated.faults.memory = 1 << 20
    with pytest.raises(cuda.OutOfMemoryError, match=r"2\.00 MiB"):
        eager.zeros(1 << 19, device="cuda")
    assert eager.zeros(8, device="cuda").tolist() == [0] * 8  # and it goes on


def test_what_is_not_there_raises():
    x = eager.ones(2, device="cuda")
    for what in (
        x.untyped_storage, lambda: cuda.Stream(priority=-1),
        lambda: x.__dlpack_device__(), lambda: cuda.Event(interprocess=True),
    ):  # fmt: skip
        with pytest.raises((NotImplementedError, BufferError), match="not (there|built)|cpu"):
            what()
    assert not hasattr(x, "__cuda_array_interface__")


def test_a_function_says_where_what_is_read_lies(tmp_path):
    path = tmp_path / "tensors.pt"
    eager.save([eager.arange(3, device="cuda"), eager.ones(2)], path)
    for place, wanted in (
        (lambda storage, saved: storage.cuda(0), ["cuda:0", "cuda:0"]),
        (lambda storage, saved: storage.cuda() if saved == "cpu" else storage, ["cpu", "cuda:0"]),
        (lambda storage, saved: None, ["cuda:0", "cpu"]),
    ):
        found = eager.load(path, map_location=place)
        assert [str(x.device) for x in found] == wanted
        assert [x.tolist() for x in found] == [[0, 1, 2], [1.0, 1.0]]


def test_what_looks_at_values_copies_them(tmp_path):
    x = eager.ones(2, device="cuda")
    eager.testing.assert_close(x, x.clone())
    with pytest.raises(AssertionError, match="1 of 2 elements differ"):
        eager.testing.assert_close(x, eager.tensor([1.0, 2.0], device="cuda"))
    with pytest.raises(AssertionError, match="The devices do not match: cuda:0 and cpu"):
        eager.testing.assert_close(x, x.cpu())
    eager.testing.assert_close(x, x.cpu(), check_device=False)
    leaf = eager.tensor([0.3, -0.7], dtype=eager.float64, device="cuda", requires_grad=True)
    assert eager.autograd.gradcheck(lambda x: x.sin() * x, (leaf,))
    assert eager.autograd.gradgradcheck(lambda x: x**3, (leaf,))
    assert np.array_equal(leaf.numpy(force=True), leaf.detach().cpu())
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("ones", x, 1)


def test_resize_keeps_what_there_is():
    for place in ("cpu", "cuda"):
        x = eager.arange(6.0, device=place)[1:]
        assert x.resize_(2, 4).tolist() == [[1, 2, 3, 4], [5, 0, 0, 0]]
        assert x.resize_(2).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("to", "source"),
    [
        (slice(1, None), slice(None, -1)),
        (slice(None, -1), slice(1, None)),
        (slice(None, None, 2), slice(None, 4000)),
        (slice(None, 4000), slice(None, None, 2)),
    ],
)
def test_what_is_copied_within_a_tensor_is_what_it_was(to, source, simulated):
    """A kernel would read what another block has written by then."""
    x = eager.arange(8000.0, device="cuda")
    before = x.cpu()
    expected = before.clone()
    expected[to] = before[source]
    x[to] = x[source]
    assert eager.equal(x.cpu(), expected)
    launches, copies = (simulated.counters()[n] for n in ("launches", "copies_on_device"))
    x[to] = x[to]
    assert simulated.counters()["launches"] == launches
    assert simulated.counters()["copies_on_device"] == copies
    with pytest.raises(RuntimeError, match="single memory location"):
        eager.add(x[:-1], 1, out=x[1:])


def test_a_scaler_leaves_out_what_overflows_as_on_the_cpu():
    found = []
    for place in ("cpu", "cuda"):
        w = eager.tensor([1.0, 2.0], device=place).requires_grad_()
        optimizer = eager.optim.SGD([w], lr=0.5)
        scaler = eager.amp.GradScaler(place, init_scale=8.0, growth_interval=2)
        seen = []
        for factor in (1.0, float("inf"), 0.5, 0.25):
            optimizer.zero_grad()
            scaler.scale((w * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            seen.append((w.tolist(), scaler.get_scale()))
        again = eager.amp.GradScaler(place)
        again.load_state_dict(scaler.state_dict())
        found.append((seen, again.state_dict()))
    assert found[0] == found[1]
    assert seen[1] == (seen[0][0], 4.0)


def test_an_index_out_of_bounds_is_raised_at_the_next_wait_with_its_line():
    x, places_ = eager.arange(4.0, device="cuda"), eager.tensor([1, 9], device="cuda")
    y = x[places_]
    with pytest.raises(IndexError, match=r"out of bounds.*test_surface\.py:\d+"):
        y.tolist()
    assert (x + 1).tolist() == [1, 2, 3, 4]  # the device is in order


def test_without_a_device_there_is_one_clear_line(monkeypatch):
    monkeypatch.delenv("JITCAP_DEVICE")
    missing = DeviceUnavailable("no NVIDIA driver is installed")
    monkeypatch.setattr(places, "_driver", lambda: missing)
    places.close()
    assert not cuda.is_available()
    assert not eager.accelerator.is_available()
    assert cuda.device_count() == cuda.memory_allocated() == 0
    cuda.synchronize()
    cuda.manual_seed_all(3)
    for call in (
        lambda: eager.ones(2).cuda(), lambda: eager.ones(2, device="cuda"),
        lambda: nn.Linear(1, 1).to("cuda:0"), cuda.current_device, cuda.Stream, cuda.Event,
        lambda: eager.set_default_device("cuda"),
    ):  # fmt: skip
        with pytest.raises(
            DeviceUnavailable, match=r"'cuda(:0)?' is not available here: no NVIDIA driver.*=sim"
        ):
            call()
    monkeypatch.setenv("JITCAP_DEVICE", "gpu")
    with pytest.raises(ValueError, match="JITCAP_DEVICE='gpu'"):
        eager.ones(2).cuda()
    monkeypatch.setenv("JITCAP_DEVICE", "sim")
    with pytest.raises(DeviceUnavailable, match="cuda:0 alone"):
        eager.ones(2).to("cuda:1")


def test_asarray_without_a_copy_does_not_move():
    for x in (eager.ones(2), np.ones(2)):
        with pytest.raises(ValueError, match="copy=False"):
            eager.asarray(x, device="cuda", copy=False)
        assert eager.asarray(x, device="cuda").tolist() == [1, 1]
