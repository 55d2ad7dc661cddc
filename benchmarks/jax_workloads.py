"""The eight workloads in JAX: one jitted function each, training steps with donated parameters.

Parameters are a flat dict with PyTorch's names, taken from the models of `benchmarks.models`, so
that every competitor trains the same weights.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.models.gpt import Config
from benchmarks.workloads import LEARNING_RATE, WEIGHT_DECAY, Program

Params = dict[str, Any]


def linear(p: Params, name: str, x: Any) -> Any:
    out = x @ p[f"{name}.weight"].T
    return out + p[f"{name}.bias"] if f"{name}.bias" in p else out


def layer_norm(x: Any, weight: Any = 1.0, bias: Any = 0.0) -> Any:
    mean = x.mean(-1, keepdims=True)
    var = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * weight + bias


def mlp(p: Params, x: Any) -> Any:
    x = jax.nn.relu(linear(p, "0", x))
    x = jax.nn.relu(linear(p, "2", x))
    return linear(p, "4", x)


def gru(p: Params, x: Any) -> Any:
    h = jnp.zeros((x.shape[0], x.shape[2]))
    for t in range(x.shape[1]):
        xr, xz, xn = jnp.split(linear(p, "input", x[:, t]), 3, -1)
        hr, hz, hn = jnp.split(linear(p, "state", h), 3, -1)
        update = jax.nn.sigmoid(xz + hz)
        new = jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn)
        h = (1.0 - update) * new + update * h
    return linear(p, "head", h)


def conv(p: Params, name: str, x: Any, stride: int = 1, padding: int = 1) -> Any:
    return jax.lax.conv_general_dilated(
        x,
        p[f"{name}.weight"],
        (stride, stride),
        [(padding, padding)] * 2,
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
    )


def batch_norm(p: Params, name: str, x: Any) -> Any:
    """Batch statistics; the running ones, which the loss does not read, are left out."""
    mean = x.mean((0, 2, 3), keepdims=True)
    var = x.var((0, 2, 3), keepdims=True)
    weight, bias = (p[f"{name}.{part}"].reshape(1, -1, 1, 1) for part in ("weight", "bias"))
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * weight + bias


def resnet(p: Params, x: Any) -> Any:
    x = jax.nn.relu(batch_norm(p, "bn", conv(p, "conv", x)))
    for stage in range(3):
        for block in range(3):
            name = f"stages.{stage}.{block}"
            stride = 2 if stage > 0 and block == 0 else 1
            out = jax.nn.relu(batch_norm(p, f"{name}.bn1", conv(p, f"{name}.conv1", x, stride)))
            out = batch_norm(p, f"{name}.bn2", conv(p, f"{name}.conv2", out))
            if stride == 2:
                x = conv(p, f"{name}.shortcut.0", x, stride, padding=0)
                x = batch_norm(p, f"{name}.shortcut.1", x)
            x = jax.nn.relu(out + x)
    return linear(p, "head", x.mean((2, 3)))


def attention(p: Params, name: str, x: Any, heads: int) -> Any:
    b, t, c = x.shape
    q, k, v = (
        part.reshape(b, t, heads, c // heads).transpose(0, 2, 1, 3)
        for part in jnp.split(linear(p, f"{name}.qkv", x), 3, -1)
    )
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(c // heads)  # (b, heads, t, t)
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
    y = jax.nn.softmax(scores, -1) @ v
    return linear(p, f"{name}.out", y.transpose(0, 2, 1, 3).reshape(b, t, c))


def gpt(p: Params, ids: Any) -> Any:
    config = Config()
    x = p["tokens.weight"][ids] + p["places.weight"][: ids.shape[1]]
    for layer in range(config.layers):
        name = f"blocks.{layer}"
        normed = layer_norm(x, p[f"{name}.ln1.weight"], p[f"{name}.ln1.bias"])
        x = x + attention(p, f"{name}.attn", normed, config.heads)
        normed = layer_norm(x, p[f"{name}.ln2.weight"], p[f"{name}.ln2.bias"])
        hidden = jax.nn.gelu(linear(p, f"{name}.up", normed), approximate=True)
        x = x + linear(p, f"{name}.down", hidden)
    return linear(p, "head", layer_norm(x, p["ln.weight"], p["ln.bias"]))


EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "tiny": lambda a, b: jnp.sin(a * b + a) * b,
    "gelu": lambda a, b: jax.nn.gelu(a * b + a, approximate=True) * b,
    "softmax": lambda a: jax.nn.softmax(a * 0.5 + 1, -1),
    "layernorm": lambda a: layer_norm(a + 1),
}
MODELS: dict[str, Callable[[Params, Any], Any]] = {
    "mlp": mlp,
    "gru": gru,
    "resnet": resnet,
    "gpt": gpt,
}


def update_of(
    forward: Callable[[Params, Any], Any], program: Program
) -> tuple[Any, Params, Any, tuple[Any, Any]]:
    """One AdamW step as a jitted function that takes and gives parameters and optimizer state,
    which are donated; the first of both, and the batch."""
    optimizer = optax.adamw(LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    params = {n: jnp.asarray(p.detach().numpy()) for n, p in program.model.named_parameters()}
    state = optimizer.init(params)
    x, y = (jnp.asarray(part.numpy()) for part in program.args)

    def loss_of(params: Params, x: Any, y: Any) -> Any:
        logits = forward(params, x)
        logits = logits.reshape(-1, logits.shape[-1])
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, y.reshape(-1))
        return losses.mean()

    def update(params: Params, state: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        changes, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, changes), state, loss

    return jax.jit(update, donate_argnums=(0, 1)), params, state, (x, y)


def training_step(forward: Callable[[Params, Any], Any], program: Program) -> Callable[[], Any]:
    """A call that makes one AdamW step."""
    compiled, params, state, (x, y) = update_of(forward, program)

    def call() -> Any:
        nonlocal params, state
        params, state, loss = compiled(params, state, x, y)
        return np.asarray(jax.block_until_ready(loss))

    return call


def build(name: str, program: Program) -> Callable[[], Any]:
    """The workload `name` as a call without arguments; `program` gives the inputs and weights."""
    if name in MODELS:
        return training_step(MODELS[name], program)
    compiled = jax.jit(EXPRESSIONS[name])
    args = tuple(jnp.asarray(arg.numpy()) for arg in program.args)
    return lambda: jax.block_until_ready(compiled(*args))
