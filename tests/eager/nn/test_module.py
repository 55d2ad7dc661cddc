"""What a Module is: registration, attributes, walking, state, hooks, copies, printing."""

import copy
import io
import pickle

import numpy as np
import pytest

import eager
from eager.nn.modules import module as hooks_of
from jitcap import jit

nn = eager.nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.scale = nn.Parameter(eager.ones(3))
        self.register_buffer("count", eager.zeros((), dtype=eager.int64))
        self.register_buffer("scratch", eager.zeros(2), persistent=False)
        self.missing = None

    def forward(self, x):
        self.count += 1
        return self.fc(x) * self.scale


def test_assignment_registers():
    m = Block()
    assert list(dict(m.named_parameters())) == ["scale", "fc.weight", "fc.bias"]
    assert list(dict(m.named_buffers())) == ["count", "scratch"]
    assert [n for n, _ in m.named_modules()] == ["", "fc"]
    assert list(m.state_dict()) == ["scale", "count", "fc.weight", "fc.bias"]
    m.extra = nn.ReLU()
    assert [n for n, _ in m.named_children()] == ["fc", "extra"]
    del m.extra
    m.fc = None
    assert list(m.children()) == []
    assert m.missing is None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        m.nothing


def test_replacing_a_plain_attribute_by_a_parameter():
    m = Block()
    m.missing = nn.Parameter(eager.zeros(1))
    assert "missing" in dict(m.named_parameters())
    assert "missing" not in m.__dict__
    with pytest.raises(TypeError, match="cannot assign"):
        m.missing = eager.zeros(1)
    m.missing = None
    assert "missing" not in dict(m.named_parameters())


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda m: m.register_parameter("a.b", None), KeyError),
        (lambda m: m.register_parameter("", None), KeyError),
        (lambda m: m.register_parameter("fc", None), KeyError),
        (lambda m: m.register_parameter("x", eager.zeros(1)), TypeError),
        (lambda m: m.register_parameter("x", nn.Parameter(eager.zeros(1)) * 2), TypeError),
        (lambda m: m.register_buffer("x", 1.0), TypeError),
        (lambda m: m.add_module("x", 1.0), TypeError),
        (lambda m: setattr(m, "fc", 1.0), TypeError),
        (lambda m: m.train(1), ValueError),
        (lambda m: m.to(eager.int64), TypeError),
        (lambda m: m.get_submodule("fc.nope"), AttributeError),
        (lambda m: nn.Module()(1), NotImplementedError),
    ],
)
def test_misuse(act, error):
    with pytest.raises(error):
        act(Block())


def test_assignment_before_init():
    class Early(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match="before Module.__init__"):
        Early()


def test_state_errors_have_the_words_of_torch():
    m = Block()
    state = m.state_dict()
    del state["scale"]
    state["other"] = eager.zeros(1)
    with pytest.raises(RuntimeError) as caught:
        m.load_state_dict(state)
    said = (
        "Error(s) in loading state_dict for Block:\n"
        '\tMissing key(s) in state_dict: "scale". \n'
        '\tUnexpected key(s) in state_dict: "other". '
    )
    assert str(caught.value).startswith(said)
    assert "strict=False" in str(caught.value)
    result = m.load_state_dict(state, strict=False)
    assert result.missing_keys == ["scale"]
    assert result.unexpected_keys == ["other"]
    with pytest.raises(RuntimeError, match="size mismatch for fc.weight"):
        m.load_state_dict({**m.state_dict(), "fc.weight": eager.zeros(2, 2)})


def test_loading_keeps_the_parameters_and_counts_as_a_write():
    a, b = Block(), Block()
    weight, version = a.fc.weight, a.fc.weight._version
    a.load_state_dict(b.state_dict())
    assert a.fc.weight is weight
    assert weight._version > version
    assert np.array_equal(weight.detach().numpy(), b.fc.weight.detach().numpy())


def test_modes_gradients_dtypes():
    m = Block()
    m.eval()
    assert not m.fc.training
    m.train()
    m(eager.rand(2, 3)).sum().backward()
    assert m.fc.weight.grad is not None
    m.zero_grad()
    assert m.fc.weight.grad is None
    m.requires_grad_(False)
    assert not m.fc.weight.requires_grad
    m.double()
    assert m.fc.weight.dtype is eager.float64
    assert m.count.dtype is eager.int64
    assert m.count.item() == 1


def test_tied_parameters_are_listed_once():
    m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    m[1].weight = m[0].weight
    assert len(list(m.parameters())) == 3
    assert len(m.state_dict()) == 4
    twin = copy.deepcopy(m)
    assert twin[1].weight is twin[0].weight


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_independent(again):
    m = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    twin = again(m)
    assert type(twin[0].weight) is nn.Parameter
    x = eager.rand(4, 3)
    assert np.array_equal(m(x).detach().numpy(), twin(x).detach().numpy())
    with eager.no_grad():
        twin[0].weight.fill_(0.0)
    assert m[0].weight.abs().sum().item() > 0


def test_hooks():
    m = nn.Linear(2, 2)
    seen = []
    pre = m.register_forward_pre_hook(lambda mod, args: (args[0] * 0,))
    post = m.register_forward_hook(lambda mod, args, out: seen.append(args) or out + 1)
    out = m(eager.rand(1, 2))
    assert np.allclose(out.detach().numpy(), m.bias.detach().numpy() + 1)
    assert seen[0][0].abs().sum().item() == 0
    pre.remove()
    post.remove()
    assert not m._forward_hooks
    first = m.register_forward_hook(lambda mod, args, out: out * 2)
    plus = lambda mod, args, out: out + 1  # noqa: E731
    m.register_forward_hook(plus, prepend=True)
    assert next(iter(m._forward_hooks.values())) is plus
    x = eager.rand(1, 2)
    assert np.allclose(m(x).detach().numpy(), (m.forward(x).detach().numpy() + 1) * 2)
    with first:
        pass
    assert len(m._forward_hooks) == 1


class Refuses(nn.Module):
    def forward(self, x):
        if x.sum() > 100:
            raise ValueError("too large")
        return x * 2


def test_hooks_of_gradients_can_be_asked_for():
    layer = nn.Linear(2, 2)
    assert len(layer._backward_hooks) == len(layer._backward_pre_hooks) == 0

    def hook(*args):
        return None

    layer.register_forward_hook(hook)
    after = layer.register_full_backward_hook(hook)
    before = layer.register_full_backward_pre_hook(hook)
    assert dict(layer._backward_hooks) == {after.id: hook}
    assert dict(layer._backward_pre_hooks) == {before.id: hook}
    with pytest.raises(AttributeError):
        layer._backward_hooks.clear()
    after.remove()
    assert len(layer._backward_hooks) == 0 and len(layer._backward_pre_hooks) == 1


def test_hooks_that_are_always_called():
    m, seen = Refuses(), []
    m.register_forward_hook(lambda mod, args, out: seen.append(out is None), always_call=True)
    assert m(eager.ones(2)).tolist() == [2, 2]
    with pytest.raises(ValueError, match="too large"):
        m(eager.full((2,), 1e3))
    assert seen == [False, True]
    m.register_forward_hook(
        lambda mod, args, kwargs, out: out + 1, with_kwargs=True, always_call=True
    )
    assert m(x=eager.ones(2)).tolist() == [3, 3]


def test_hooks_of_all_modules():
    plain, seen = nn.Module.__call__, []
    m, x = nn.Sequential(nn.Linear(2, 3), nn.Tanh()), eager.rand(1, 2, requires_grad=True)
    step = jit(lambda x: m(x))
    before = step(x)
    with hooks_of.register_module_forward_hook(lambda mod, args, out: out * 2):
        assert np.allclose(step(x).detach().numpy(), m(x).detach().numpy())
        assert not np.allclose(m(x).detach().numpy(), before.detach().numpy())
    hooks = (
        hooks_of.register_module_forward_pre_hook(lambda mod, args: seen.append(type(mod).__name__)),
        hooks_of.register_module_forward_hook(lambda mod, args, out: out * 2),
        hooks_of.register_module_full_backward_hook(
            lambda mod, g_in, g_out: seen.append((type(mod).__name__, len(g_in)))
        ),
        hooks_of.register_module_full_backward_pre_hook(lambda mod, g_out: seen.append(g_out[0].shape)),
    )  # fmt: skip
    after = m(x)
    after.sum().backward()
    assert seen == [
        "Sequential", "Linear", "Tanh", (1, 3), (1, 3), ("Tanh", 1), (1, 3), ("Linear", 1),
        ("Sequential", 1),
    ]  # fmt: skip
    for hook in hooks:
        hook.remove()
    assert nn.Module.__call__ is plain and len(seen) == 9
    assert np.allclose(step(x).detach().numpy(), before.detach().numpy())


def test_modules_are_shown_as_in_the_reference():
    torch = pytest.importorskip("torch")
    for make in (
        lambda n, m: n.Embedding(3, 4, 1, 2.0, 3.0, True, True),
        lambda n, m: n.EmbeddingBag(3, 4, 2.0, padding_idx=1, mode="sum"),
        lambda n, m: n.MaxUnpool1d(2, 3, 1),
        lambda n, m: n.MultiheadAttention(4, 2),
        lambda n, m: n.ParameterList([n.Parameter(m.ones(2)), m.ones(2, 3)]),
        lambda n, m: n.ParameterDict({"a": n.Parameter(m.ones(2)), "b": m.ones(2, 3)}),
        lambda n, m: n.Linear(2, 2).load_state_dict({"a": m.ones(1)}, strict=False),
    ):
        mine, theirs = repr(make(nn, eager)), repr(make(torch.nn, torch))
        assert mine.replace("eager", "torch") == theirs


def test_older_states_of_batch_norm_have_no_count():
    net = nn.Sequential(nn.BatchNorm1d(3))
    net[0].num_batches_tracked += 5
    state = net.state_dict()
    assert state._metadata["0"]["version"] == 2
    del state["0.num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        net.load_state_dict(state)
    state._metadata["0"]["version"] = 1
    net.load_state_dict(state)
    net.load_state_dict(dict(state))
    assert net[0].num_batches_tracked == 5


def test_containers():
    layers = nn.ModuleList([nn.Linear(1, 1) for _ in range(3)])
    layers.insert(1, nn.ReLU())
    assert [type(x).__name__ for x in layers] == ["Linear", "ReLU", "Linear", "Linear"]
    assert isinstance(layers[-1], nn.Linear)
    assert len(layers[1:3]) == 2
    del layers[1]
    assert len(layers) == 3
    layers += [nn.Tanh()]
    assert isinstance(layers.pop(), nn.Tanh)
    with pytest.raises(IndexError):
        layers[7]
    table = nn.ModuleDict({"a": nn.Linear(1, 1)})
    table["b"] = nn.ReLU()
    assert list(table) == ["a", "b"]
    assert "a" in table
    assert list(table.state_dict()) == ["a.weight", "a.bias"]
    parameters = nn.ParameterList([eager.zeros(2), eager.ones(1)])
    assert len(list(parameters.parameters())) == 2
    assert [tuple(p.shape) for p in parameters] == [(2,), (1,)]
    named = nn.ParameterDict({"x": eager.zeros(2)})
    named["y"] = eager.zeros(1)
    assert list(named.state_dict()) == ["x", "y"]
    named["b"] = eager.zeros(1)
    assert list(named | {"a": eager.ones(1)}) == ["x", "y", "b", "a"]
    table.update(nn.ModuleDict({"b": nn.ReLU()}))
    table.update([("c", nn.Tanh())])
    assert list(table) == ["a", "b", "c"] and list(nn.ModuleDict(table)) == ["a", "b", "c"]
    both = nn.Sequential(nn.ReLU()) + nn.Sequential(nn.Tanh())
    assert len(both) == 2


def test_printing_nested():
    m = nn.Sequential(nn.Linear(1, 2), nn.Sequential(nn.ReLU()))
    assert repr(m) == (
        "Sequential(\n"
        "  (0): Linear(in_features=1, out_features=2, bias=True)\n"
        "  (1): Sequential(\n"
        "    (0): ReLU()\n"
        "  )\n"
        ")"
    )


def test_printing_equal_neighbours_of_a_list():
    m = nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh(), nn.ReLU()])
    assert repr(m) == "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n  (3): ReLU()\n)"
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_apply_visits_children_first():
    order = []
    nn.Sequential(nn.Linear(1, 1), nn.ReLU()).apply(lambda m: order.append(type(m).__name__))
    assert order == ["Linear", "ReLU", "Sequential"]


class Counting(nn.Module):
    """Has a state that is no tensor."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(eager.ones(2))
        self.count = 0

    def get_extra_state(self):
        return self.count

    def set_extra_state(self, state):
        self.count = state


def test_extra_state():
    model, other = nn.Sequential(Counting()), nn.Sequential(Counting())
    model[0].count = 7
    state = model.state_dict()
    assert list(state) == ["0.weight", "0._extra_state"]
    assert str(other.load_state_dict(state)) == "<All keys matched successfully>"
    assert other[0].count == 7
    del state["0._extra_state"]
    assert other.load_state_dict(state, strict=False).missing_keys == ["0._extra_state"]
    with pytest.raises(RuntimeError, match="Unexpected key"):
        nn.Linear(2, 2).load_state_dict({**nn.Linear(2, 2).state_dict(), "_extra_state": 1})


def test_hooks_of_the_state():
    model, seen = nn.Sequential(nn.Linear(2, 3)), []
    model[0].register_state_dict_pre_hook(lambda module, prefix, keep: seen.append((prefix, keep)))
    model[0].register_state_dict_post_hook(
        lambda module, state, prefix, local: state.update(
            {prefix + "older": state.pop(prefix + "bias")}
        )
    )
    handle = model[0].register_load_state_dict_pre_hook(
        lambda module, state, prefix, *_: state.update(
            {prefix + "bias": state.pop(prefix + "older")}
        )
    )
    model.register_load_state_dict_post_hook(lambda module, keys: seen.append((module, keys)))
    state = model.state_dict()
    assert list(state) == ["0.weight", "0.older"] and seen == [("0.", False)]
    keys = model.load_state_dict(state)
    assert list(state) == ["0.weight", "0.older"] and seen[1] == (model, keys)
    handle.remove()
    with pytest.raises(RuntimeError, match="older"):
        model.load_state_dict(state)


def test_set_submodule():
    model = nn.Sequential(Block(), nn.Linear(2, 2))
    model.set_submodule("0.fc", nn.Identity())
    assert isinstance(model[0].fc, nn.Identity)
    model.set_submodule("0.more", nn.ReLU())
    with pytest.raises(AttributeError, match="other"):
        model.set_submodule("0.other", nn.ReLU(), strict=True)
    with pytest.raises(AttributeError, match="scale"):
        model.set_submodule("0.scale", nn.ReLU())


def test_a_dict_of_parameters_is_a_dict():
    held = nn.ParameterDict({"a": eager.ones(1), "b": eager.ones(2)})
    other = held.copy()
    assert held.pop("a") is other["a"] and list(held) == ["b"] and list(other) == ["a", "b"]
    assert held.setdefault("b", eager.ones(3)) is other["b"] and held.popitem() == ("b", other["b"])
    other.clear()
    assert not len(other) and not list(other.parameters())


@pytest.mark.parametrize("layer", [lambda: nn.Conv2d(2, 3, 2, bias=False), lambda: nn.ConvTranspose2d(2, 3, 2),
                                   lambda: nn.Linear(2, 3)])  # fmt: skip
def test_a_normalisation_is_folded_into_its_layer(layer):
    eager.manual_seed(0)
    first = layer()
    linear = isinstance(first, nn.Linear)
    norm = nn.BatchNorm1d(3) if linear else nn.BatchNorm2d(3)
    both = nn.Sequential(first, norm)
    x = eager.randn(5, 2) if linear else eager.randn(5, 2, 4, 4)
    both(x)
    if linear:
        fuse = nn.utils.fuse_linear_bn_eval
    else:
        transpose = isinstance(first, nn.ConvTranspose2d)
        fuse = lambda a, b: nn.utils.fuse_conv_bn_eval(a, b, transpose)  # noqa: E731
    with pytest.raises(AssertionError, match="eval"):
        fuse(first, norm)
    both.eval()
    assert eager.allclose(fuse(first, norm)(x), both(x), atol=1e-5)


def test_to_empty_and_skip_init():
    m = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    weight = m[0].weight
    assert m.to_empty(device="cpu") is m
    assert m[0].weight is weight
    assert [tuple(b.shape) for b in m.buffers()] == [(3,), (3,), ()]
    assert m.share_memory() is m
    assert all(t.is_shared() for t in (*m.parameters(), *m.buffers()))
    eager.manual_seed(3)
    first = eager.rand(2)
    eager.manual_seed(3)
    assert nn.utils.skip_init(nn.Linear, 2, 3).weight.shape == (3, 2)
    assert (eager.rand(2) == first).all()


class Versioned(nn.Linear):
    """Its weight was called `w` in its first version."""

    _version = 2

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *notes):
        if local_metadata.get("version") is None:
            state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *notes)


def test_a_module_reads_the_older_form_of_its_state():
    model = nn.Sequential(nn.ReLU(), Versioned(2, 1))
    file = io.BytesIO()
    eager.save(model.state_dict(), file)
    file.seek(0)
    read = eager.load(file)
    assert read._metadata == {"": {"version": 1}, "0": {"version": 1}, "1": {"version": 2}}
    assert str(model.load_state_dict(read)) == "<All keys matched successfully>"
    model.load_state_dict({"1.w": eager.zeros(1, 2), "1.bias": eager.ones(1)})
    assert model[1].weight.tolist() == [[0, 0]]


def test_what_does_not_fit_is_listed():
    model = nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 1))
    state = {"0.weight": 3, "0.bias": eager.ones(2), "1.q": 0, "2.weight": 0, "1.weight": 0}
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(state)
    text = str(caught.value)
    assert 'Missing key(s) in state_dict: "1.bias"' in text
    assert 'Unexpected key(s) in state_dict: "2.weight", "1.q"' in text
    assert 'parameter named "0.weight", expected Tensor' in text
    assert "size mismatch for 0.bias" in text
    found = model.load_state_dict({"1.bias": eager.ones(1), "7": 1}, strict=False)
    assert found.missing_keys == ["0.weight", "0.bias", "1.weight"]
    assert found.unexpected_keys == ["7"]


def test_hooks_after_saving_may_change_the_state():
    model = nn.Linear(2, 1)
    model._register_state_dict_hook(lambda module, state, prefix, about: {**state, "more": 1})
    assert list(model.state_dict()) == ["weight", "bias", "more"]
    model.register_state_dict_post_hook(lambda module, state, prefix, about: 3)
    with pytest.raises(RuntimeError, match="must return None"):
        model.state_dict()


def test_containers_multiply_join_and_show_what_they_hold():
    twice = nn.Sequential(nn.ReLU(), nn.Tanh()) * 2
    assert len(twice) == 4 and twice[0] is twice[2]
    twice *= 2
    assert len(twice) == 8
    with pytest.raises(ValueError, match="Non-positive"):
        twice * 0
    held = nn.ParameterDict({"a": eager.ones(2)})
    both = held | {"b": eager.ones(1, 2)}
    assert list(both) == ["a", "b"] and list(held) == ["a"] and list(reversed(both)) == ["b", "a"]
    assert "(b): Parameter containing: [eager.FloatTensor of size 1x2]" in repr(both)
    assert "(0): Parameter containing: [eager.float32 of size 2]" in repr(
        nn.ParameterList(held.values())
    )


def test_the_order_of_a_dictionary_of_parameters():
    """As in PyTorch, where optimizers and saved states rest on it: a plain dictionary is sorted."""
    held = nn.ParameterDict({"b": eager.ones(1), "a": eager.ones(2)})
    held.update([("z", eager.ones(1)), ("c", eager.ones(1))])
    held.update(nn.ParameterDict([("y", eager.ones(1)), ("x", eager.ones(1))]))
    assert list(held) == ["a", "b", "z", "c", "y", "x"]
