"""Recurrent modules. sequences (time, batch, features) -> outputs of every step and the last state.

The loop over time is a plain Python loop over one cell step: compiled code sees it unrolled. Gates
are computed for all steps at once where they do not depend on the state. Parameter names and
layouts are PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from eager.base.compat_warnings import warn
from eager.core.casts import is_autocast_enabled, lowered_on_gpus
from eager.core.tensor import Tensor
from eager.nn import functional as F
from eager.nn import init
from eager.nn.modules.module import Module
from eager.nn.parameter import Parameter
from eager.nn.utils.rnn import PackedSequence, packed, unpacked
from eager.ops.create import arange, empty
from eager.ops.move import cat, stack
from eager.ops.pointwise import where

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


# ------------------------------------------------------------------------------- one step
def _rnn_step(gates: Tensor, h: Tensor, w_hh: Tensor, b_hh: Tensor | None, relu: bool) -> Tensor:
    total = gates + F.linear(h, w_hh, b_hh)
    return F.relu(total) if relu else total.tanh()


def _gru_step(gates: Tensor, h: Tensor, w_hh: Tensor, b_hh: Tensor | None) -> Tensor:
    """Cho et al. 2014, with the reset gate after the product as in PyTorch."""
    r_x, z_x, n_x = gates.chunk(3, -1)
    r_h, z_h, n_h = F.linear(h, w_hh, b_hh).chunk(3, -1)
    reset = (r_x + r_h).sigmoid()
    update = (z_x + z_h).sigmoid()
    new = (n_x + reset * n_h).tanh()
    return new + update * (h - new)


def _lstm_step(
    gates: Tensor, h: Tensor, c: Tensor, w_hh: Tensor, b_hh: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Hochreiter, Schmidhuber 1997, with a forget gate."""
    i, f, g, o = (gates + F.linear(h, w_hh, b_hh)).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


# ---------------------------------------------------------------------------------- layers
def _of_the_living(before: Any, after: Any, live: Tensor) -> Any:
    """The new state (of LSTM: both parts) of those that live, the old one of the others."""
    if isinstance(after, tuple):
        return tuple(where(live, a, b) for a, b in zip(after, before, strict=True))
    return where(live, after, before)


def _selected(states: Any, places: Tensor) -> Any:
    """States (layers, batch, features) in another order of the batch."""
    if isinstance(states, tuple):
        return tuple(s.index_select(1, places) for s in states)
    return states.index_select(1, places)


def _require(kind: type, **given: Any) -> None:
    for name, value in given.items():
        if not isinstance(value, kind):
            raise TypeError(
                f"{name} should be of type {kind.__name__}, got: {type(value).__name__}"
            )


class RNNBase(Module):
    """Layers and directions of one kind of cell. `mode` is RNN_TANH, RNN_RELU, LSTM or GRU."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warn(
                f"dropout={dropout} has no effect with num_layers=1: it lies between the layers, "
                "not behind the last one"
            )
        _require(bool, bias=bias, batch_first=batch_first)
        _require(int, input_size=input_size, hidden_size=hidden_size)
        if min(input_size, hidden_size, num_layers) <= 0:
            raise ValueError("input_size, hidden_size and num_layers must be greater than zero")
        if proj_size and mode != "LSTM":
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        for layer in range(num_layers):
            for suffix in self._suffixes(layer):
                self._add_layer(layer, suffix, device, dtype)
        self.reset_parameters()

    def _suffixes(self, layer: int) -> list[str]:
        """Suffixes of the parameter names of each direction of a layer."""
        return [f"_l{layer}", f"_l{layer}_reverse"] if self.bidirectional else [f"_l{layer}"]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each direction of each layer."""
        kinds = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if self.bias else [])]
        kinds += ["weight_hr"] if self.proj_size else []
        suffixes = [s for layer in range(self.num_layers) for s in self._suffixes(layer)]
        return [[getattr(self, kind + suffix) for kind in kinds] for suffix in suffixes]

    def _add_layer(self, layer: int, suffix: str, device: Any, dtype: Any) -> None:
        rows = _GATES[self.mode] * self.hidden_size
        state = self.proj_size or self.hidden_size
        directions = 2 if self.bidirectional else 1
        width = self.input_size if layer == 0 else state * directions
        shapes = {"weight_ih": (rows, width), "weight_hh": (rows, state)}
        if self.bias:
            shapes.update({"bias_ih": (rows,), "bias_hh": (rows,)})  # type: ignore[dict-item]
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        for name, shape in shapes.items():
            setattr(self, name + suffix, Parameter(empty(shape, device=device, dtype=dtype)))

    def reset_parameters(self) -> None:
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing: parameters need no particular place in memory here."""

    def _weights(self, suffix: str) -> tuple[Any, ...]:
        """weight_ih, weight_hh, bias_ih, bias_hh of one direction of a layer (None without
        bias)."""
        w_ih, w_hh = getattr(self, "weight_ih" + suffix), getattr(self, "weight_hh" + suffix)
        if not self.bias:
            return w_ih, w_hh, None, None
        return w_ih, w_hh, getattr(self, "bias_ih" + suffix), getattr(self, "bias_hh" + suffix)

    def _direction(
        self, x: Tensor, suffix: str, state: Any, live: Sequence[int] | None
    ) -> tuple[Tensor, Any]:
        """One direction of one layer over x (time, batch, features): all outputs, and the last
        state. `live`: how many of the batch have each step; the others keep their state."""
        w_ih, w_hh, b_ih, b_hh = self._weights(suffix)
        gates, state = F.linear(x, w_ih, b_ih), lowered_on_gpus(state)
        steps = range(x.shape[0])
        outputs = []
        backwards = suffix.endswith("_reverse")
        for t in reversed(steps) if backwards else steps:
            before, state = state, self._step(gates[t], state, w_hh, b_hh, suffix)
            if live is not None and live[t] < x.shape[1]:
                goes_on = arange(x.shape[1], device=x.device) < live[t]
                state = _of_the_living(before, state, goes_on.unsqueeze(1))
            outputs.append(state[0] if self.mode == "LSTM" else state)
        if backwards:
            outputs.reverse()
        return stack(outputs), state

    def _step(self, gates: Tensor, state: Any, w_hh: Tensor, b_hh: Any, suffix: str) -> Any:
        if self.mode == "GRU":
            return _gru_step(gates, state, w_hh, b_hh)
        if self.mode != "LSTM":
            return _rnn_step(gates, state, w_hh, b_hh, self.mode == "RNN_RELU")
        h, c = _lstm_step(gates, state[0], state[1], w_hh, b_hh)
        if self.proj_size:
            h = F.linear(h, getattr(self, "weight_hr" + suffix))
        return h, c

    def _run(
        self, x: Tensor, states: list[Any], live: Sequence[int] | None = None
    ) -> tuple[Tensor, list[Any]]:
        """All layers; `states` has one entry per layer and direction."""
        last: list[Any] = []
        for layer in range(self.num_layers):
            outputs = []
            for suffix in self._suffixes(layer):
                out, state = self._direction(x, suffix, states[len(last)], live)
                outputs.append(out)
                last.append(state)
            x = cat(outputs, -1) if len(outputs) > 1 else outputs[0]
            if self.dropout and layer + 1 < self.num_layers:
                x = F.dropout(x, self.dropout, self.training)
        return x, last

    def _packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        """The layers over packed sequences: padded, each state kept when its sequence is over."""
        self._check(input.data)
        if input.data.ndim != 2:
            raise RuntimeError(f"input must have 2 dimensions, got {input.data.ndim}")
        live = input.batch_sizes.tolist()
        x = unpacked(input.data, live)
        if hx is not None and input.sorted_indices is not None:
            hx = _selected(hx, input.sorted_indices)
        out, last = self._layers(x, hx, False, live)
        if input.unsorted_indices is not None:
            last = _selected(last, input.unsorted_indices)
        return input._replace(data=packed(out, live)), last

    def _layers(
        self, x: Tensor, hx: Any, single: bool, live: Sequence[int] | None = None
    ) -> tuple[Tensor, Any]:
        """All outputs of x (time, batch, features), and the last state as it is returned."""
        raise NotImplementedError

    def _enter(self, input: Tensor) -> tuple[Tensor, bool]:
        """(time, batch, features), and whether a batch dimension was added."""
        if not isinstance(input, Tensor):
            raise TypeError(
                f"{type(self).__name__}: expected a Tensor or a PackedSequence, got "
                f"{type(input).__name__}"
            )
        if input.ndim not in (2, 3):
            raise ValueError(
                f"RNN: Expected input to be 2D or 3D, got {input.ndim}D tensor instead"
            )
        self._check(input)
        if input.ndim == 2:
            return input.unsqueeze(1), True
        return (input.transpose(0, 1) if self.batch_first else input), False

    def _check(self, input: Tensor) -> None:
        weight = self.weight_ih_l0
        cast = is_autocast_enabled("cpu") or is_autocast_enabled("cuda")
        if input.dtype is not weight.dtype and not cast:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: "
                f"model.to({input.dtype})"
            )
        if input.shape[-1] != self.input_size:
            given = f"an input of shape {tuple(input.shape)}"
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{input.shape[-1]}: {self.mode}(input_size={self.input_size}) got {given}"
            )

    def _leave(self, out: Tensor, single: bool) -> Tensor:
        if single:
            return out.squeeze(1)
        return out.transpose(0, 1) if self.batch_first else out

    def _split(self, hx: Tensor | None, x: Tensor, size: int, single: bool) -> list[Tensor]:
        """The initial state of each layer and direction; zeros when none is given."""
        count = self.num_layers * (2 if self.bidirectional else 1)
        if hx is None:
            return [x.new_zeros((x.shape[1], size)) for _ in range(count)]
        if single:
            hx = hx.unsqueeze(1)
        if tuple(hx.shape) != (count, x.shape[1], size):
            raise RuntimeError(
                f"Expected hidden size {(count, x.shape[1], size)}, got {list(hx.shape)}"
            )
        return [hx[i] for i in range(count)]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if not self.bias:
            text += f", bias={self.bias}"
        if self.batch_first:
            text += f", batch_first={self.batch_first}"
        if self.dropout:
            text += f", dropout={self.dropout}"
        return text + f", bidirectional={self.bidirectional}" if self.bidirectional else text


class _Simple(RNNBase):
    """RNN and GRU: the state is one tensor."""

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        x, single = self._enter(input)
        out, h = self._layers(x, hx, single)
        return self._leave(out, single), h.squeeze(1) if single else h

    def _layers(
        self, x: Tensor, hx: Any, single: bool, live: Sequence[int] | None = None
    ) -> tuple[Tensor, Any]:
        out, last = self._run(x, self._split(hx, x, self.hidden_size, single), live)
        return out, stack(last)


class RNN(_Simple):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu (Elman 1990)."""

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **kwargs: Any) -> None:
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        mode = "RNN_TANH" if nonlinearity == "tanh" else "RNN_RELU"
        super().__init__(mode, *args, **kwargs)
        self.nonlinearity = nonlinearity


class GRU(_Simple):
    """Gated recurrent units (Cho et al. 2014)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter, Schmidhuber 1997); the state is the pair (h, c)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def forward(
        self, input: Any, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        x, single = self._enter(input)
        out, (h, c) = self._layers(x, hx, single)
        if single:
            h, c = h.squeeze(1), c.squeeze(1)
        return self._leave(out, single), (h, c)

    def _layers(
        self, x: Tensor, hx: Any, single: bool, live: Sequence[int] | None = None
    ) -> tuple[Tensor, Any]:
        h0, c0 = (None, None) if hx is None else hx
        hidden = self._split(h0, x, self.proj_size or self.hidden_size, single)
        cells = self._split(c0, x, self.hidden_size, single)
        out, last = self._run(x, list(zip(hidden, cells, strict=True)), live)
        return out, (stack([s[0] for s in last]), stack([s[1] for s in last]))


# ----------------------------------------------------------------------------------- cells
class RNNCellBase(Module):
    """One step of a recurrent layer, with `num_chunks` gates."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(rows, hidden_size, device=device, dtype=dtype))
        if bias:
            self.bias_ih = Parameter(empty(rows, device=device, dtype=dtype))
            self.bias_hh = Parameter(empty(rows, device=device, dtype=dtype))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _gates(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight_ih, self.bias_ih)

    def _state(self, input: Tensor, hx: Tensor | None) -> Tensor:
        for name, x in (("input", input), ("hidden", hx)):
            if x is not None and x.ndim not in (1, 2):
                raise ValueError(
                    f"{type(self).__name__}: Expected {name} to be 1D or 2D, got {x.ndim}D instead"
                )
        expected = (*input.shape[:-1], self.hidden_size)
        given = input.new_zeros(expected) if hx is None else hx
        if tuple(given.shape) != expected:
            raise RuntimeError(f"Expected hidden size {expected}, got {list(given.shape)}")
        state: Tensor = lowered_on_gpus(given)
        return state

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        kind = getattr(self, "nonlinearity", "tanh")
        return text if kind == "tanh" else text + f", nonlinearity={kind}"


class RNNCell(RNNCellBase):
    """One step of `RNN`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        if nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {nonlinearity}")
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        h = self._state(input, hx)
        relu = self.nonlinearity == "relu"
        return _rnn_step(self._gates(input), h, self.weight_hh, self.bias_hh, relu)


class LSTMCell(RNNCellBase):
    """One step of `LSTM`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        h, c = (None, None) if hx is None else hx
        h, c = self._state(input, h), self._state(input, c)
        return _lstm_step(self._gates(input), h, c, self.weight_hh, self.bias_hh)


class GRUCell(RNNCellBase):
    """One step of `GRU`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        h = self._state(input, hx)
        return _gru_step(self._gates(input), h, self.weight_hh, self.bias_hh)
