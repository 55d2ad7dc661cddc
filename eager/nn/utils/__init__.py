"""`eager.nn.utils`: clipping gradients, flat parameter vectors, padded sequences, norms of
weights."""

from eager.nn.utils import rnn
from eager.nn.utils.clip import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from eager.nn.utils.convert import parameters_to_vector, vector_to_parameters
from eager.nn.utils.weights import (
    remove_spectral_norm,
    remove_weight_norm,
    spectral_norm,
    weight_norm,
)

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]
