"""Calls of every module: arguments and inputs, for comparison with torch and of compiled code with eager."""

import numpy as np


def f(*shape):
    return ("float", shape)


def i(high, *shape):
    return ("int", shape, high)


def positive(*shape):
    return ("positive", shape)


# (class, arguments, keywords, inputs)
CASES = [
    ("Linear", (4, 3), {}, [f(2, 5, 4)]),
    ("Linear", (4, 3), {"bias": False}, [f(4)]),
    ("Bilinear", (3, 4, 2), {}, [f(5, 3), f(5, 4)]),
    ("Identity", (1, 2), {}, [f(2, 3)]),
    ("Flatten", (), {}, [f(2, 3, 4)]),
    ("Unflatten", (1, (2, 3)), {}, [f(2, 6)]),
    ("Embedding", (7, 3), {"padding_idx": 2}, [i(7, 4, 5)]),
    ("EmbeddingBag", (7, 3), {"mode": "sum"}, [i(7, 4, 5)]),
    ("EmbeddingBag", (7, 3), {"mode": "max"}, [i(7, 4, 5)]),
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, [f(2, 4, 9)]),
    ("Conv1d", (4, 6, 4), {"padding": "same", "dilation": 2}, [f(2, 4, 9)]),
    ("Conv2d", (3, 6, (3, 2)), {"stride": (2, 1), "padding": (1, 0)}, [f(2, 3, 7, 6)]),
    ("Conv2d", (3, 6, 3), {"padding": 2, "padding_mode": "reflect"}, [f(2, 3, 7, 6)]),
    ("Conv2d", (3, 6, 3), {"padding": "same", "padding_mode": "circular"}, [f(2, 3, 7, 6)]),
    ("Conv2d", (6, 6, 3), {"groups": 6, "bias": False}, [f(2, 6, 7, 6)]),
    ("Conv2d", (6, 12, 3), {"groups": 6}, [f(6, 7, 6)]),
    ("Conv3d", (2, 3, 2), {"dilation": 2}, [f(2, 2, 4, 5, 4)]),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "groups": 2}, [f(2, 4, 5)]),
    ("ConvTranspose2d", (3, 4, 3), {"stride": 2, "padding": 1, "output_padding": 1}, [f(2, 3, 4, 5)]),
    ("ConvTranspose2d", (3, 4, 3), {"dilation": 3, "output_padding": 2}, [f(2, 3, 4, 5)]),
    ("ConvTranspose3d", (2, 3, 2), {"stride": 2}, [f(1, 2, 3, 2, 3)]),
    ("MaxPool1d", (3, 2), {"padding": 1}, [f(2, 3, 8)]),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}, [f(2, 3, 8, 7)]),
    ("MaxPool2d", (2,), {"dilation": 2, "return_indices": True}, [f(2, 3, 8, 7)]),
    ("MaxPool3d", (2,), {}, [f(2, 3, 4, 4, 5)]),
    ("AvgPool1d", (3, 2), {"padding": 1, "count_include_pad": False}, [f(2, 3, 8)]),
    ("AvgPool2d", (3, 2, 1), {"ceil_mode": True}, [f(2, 3, 8, 7)]),
    ("AvgPool2d", (3, 2), {"divisor_override": 5}, [f(3, 8, 7)]),
    ("AvgPool3d", (2,), {}, [f(2, 3, 4, 4, 5)]),
    ("LPPool2d", (2, 3), {"stride": 2}, [positive(2, 3, 8, 7)]),
    ("LPPool3d", (2, 2), {}, [positive(2, 3, 4, 5, 4)]),
    ("AdaptiveAvgPool1d", (3,), {}, [f(2, 3, 8)]),
    ("AdaptiveAvgPool2d", ((3, None),), {}, [f(2, 3, 8, 7)]),
    ("AdaptiveAvgPool2d", (1,), {}, [f(2, 3, 8, 7)]),
    ("AdaptiveAvgPool3d", (2,), {}, [f(2, 3, 4, 4, 5)]),
    ("AdaptiveMaxPool1d", (3,), {}, [f(2, 3, 8)]),
    ("AdaptiveMaxPool2d", ((3, 7),), {"return_indices": True}, [f(2, 3, 8, 7)]),
    ("BatchNorm1d", (5,), {}, [f(4, 5)]),
    ("BatchNorm1d", (5,), {"momentum": None}, [f(4, 5, 3)]),
    ("BatchNorm2d", (3,), {"momentum": 0.3}, [f(4, 3, 5, 4)]),
    ("BatchNorm2d", (3,), {"affine": False, "track_running_stats": False}, [f(4, 3, 5, 4)]),
    ("BatchNorm3d", (3,), {}, [f(2, 3, 2, 2, 3)]),
    ("InstanceNorm1d", (3,), {}, [f(4, 3, 5)]),
    ("InstanceNorm2d", (3,), {"affine": True, "track_running_stats": True}, [f(4, 3, 5, 4)]),
    ("InstanceNorm3d", (3,), {}, [f(3, 2, 2, 3)]),
    ("LayerNorm", (4,), {}, [f(2, 3, 4)]),
    ("LayerNorm", ((3, 4),), {"bias": False}, [f(2, 3, 4)]),
    ("RMSNorm", (4,), {"eps": 1e-5}, [f(2, 3, 4)]),
    ("GroupNorm", (2, 6), {}, [f(3, 6, 4)]),
    ("LocalResponseNorm", (3,), {}, [f(2, 5, 4)]),
    ("AdaptiveLogSoftmaxWithLoss", (8, 20, [4, 10]), {"div_value": 2.0}, [f(7, 8), i(20, 7)]),
    ("AdaptiveLogSoftmaxWithLoss", (8, 20, [4, 10, 15]), {"head_bias": True, "div_value": 1.5}, [f(8), i(20)]),
    ("ReLU", (), {}, [f(3, 4)]),
    ("ReLU6", (), {}, [f(3, 4)]),
    ("LeakyReLU", (0.2,), {}, [f(3, 4)]),
    ("PReLU", (4,), {}, [f(3, 4, 2)]),
    ("RReLU", (), {}, [f(3, 4)]),
    ("ELU", (0.7,), {}, [f(3, 4)]),
    ("CELU", (0.7,), {}, [f(3, 4)]),
    ("SELU", (), {}, [f(3, 4)]),
    ("GELU", (), {}, [f(3, 4)]),
    ("GELU", ("tanh",), {}, [f(3, 4)]),
    ("SiLU", (), {}, [f(3, 4)]),
    ("Mish", (), {}, [f(3, 4)]),
    ("Sigmoid", (), {}, [f(3, 4)]),
    ("LogSigmoid", (), {}, [f(3, 4)]),
    ("Tanh", (), {}, [f(3, 4)]),
    ("Tanhshrink", (), {}, [f(3, 4)]),
    ("Softplus", (2.0, 1.0), {}, [f(3, 4)]),
    ("Softsign", (), {}, [f(3, 4)]),
    ("Softshrink", (0.3,), {}, [f(3, 4)]),
    ("Hardshrink", (0.3,), {}, [f(3, 4)]),
    ("Hardtanh", (-0.5, 0.7), {}, [f(3, 4)]),
    ("Hardsigmoid", (), {}, [f(3, 4)]),
    ("Hardswish", (), {}, [f(3, 4)]),
    ("Threshold", (0.1, 2.0), {}, [f(3, 4)]),
    ("Softmax", (1,), {}, [f(3, 4)]),
    ("Softmin", (1,), {}, [f(3, 4)]),
    ("LogSoftmax", (-1,), {}, [f(3, 4)]),
    ("Softmax2d", (), {}, [f(2, 3, 4, 4)]),
    ("GLU", (), {}, [f(3, 4)]),
    ("ZeroPad2d", (1,), {}, [f(2, 3, 4, 5)]),
    ("ConstantPad1d", ((1, 2), 0.5), {}, [f(2, 3, 4)]),
    ("ReflectionPad2d", ((1, 2, 0, 3),), {}, [f(2, 3, 4, 5)]),
    ("ReplicationPad2d", (2,), {}, [f(2, 3, 4, 5)]),
    ("ReplicationPad3d", (1,), {}, [f(2, 3, 4, 5, 2)]),
    ("CircularPad1d", (2,), {}, [f(2, 3, 4)]),
    ("Upsample", (), {"scale_factor": 2}, [f(2, 3, 4, 5)]),
    ("Upsample", (), {"scale_factor": 1.5, "mode": "bilinear"}, [f(2, 3, 4, 5)]),
    ("Upsample", (), {"size": (7, 3), "mode": "bicubic", "align_corners": True}, [f(2, 3, 4, 5)]),
    ("Upsample", (), {"scale_factor": 0.6, "mode": "nearest"}, [f(2, 3, 8, 5)]),
    ("Upsample", (), {"size": 9, "mode": "nearest-exact"}, [f(2, 3, 4)]),
    ("Upsample", (), {"size": 9, "mode": "linear"}, [f(2, 3, 4)]),
    ("Upsample", (), {"scale_factor": 2, "mode": "trilinear"}, [f(1, 2, 3, 2, 3)]),
    ("PixelShuffle", (2,), {}, [f(2, 8, 3, 4)]),
    ("PixelUnshuffle", (2,), {}, [f(2, 2, 4, 6)]),
    ("ChannelShuffle", (2,), {}, [f(2, 6, 3, 3)]),
    ("Unfold", ((2, 3),), {"padding": 1, "stride": 2}, [f(2, 3, 5, 6)]),
    ("Fold", ((5, 6), 2), {}, [f(2, 12, 20)]),
    ("RNN", (3, 4), {"num_layers": 2}, [f(3, 2, 3)]),
    ("RNN", (3, 4), {"nonlinearity": "relu", "bidirectional": True}, [f(3, 2, 3)]),
    ("GRU", (3, 4), {"num_layers": 2, "bidirectional": True, "batch_first": True}, [f(2, 3, 3)]),
    ("GRU", (3, 4), {"bias": False}, [f(3, 3), f(1, 4)]),
    ("LSTM", (3, 4), {"num_layers": 2, "bidirectional": True}, [f(3, 2, 3)]),
    ("LSTM", (3, 4), {"proj_size": 2, "batch_first": True}, [f(2, 4, 3)]),
    ("RNNCell", (3, 4), {}, [f(2, 3), f(2, 4)]),
    ("GRUCell", (3, 4), {}, [f(2, 3)]),
    ("LSTMCell", (3, 4), {"bias": False}, [f(2, 3)]),
    ("MultiheadAttention", (8, 2), {}, [f(5, 3, 8), f(6, 3, 8), f(6, 3, 8)]),
    ("MultiheadAttention", (8, 2), {"kdim": 4, "vdim": 6, "batch_first": True}, [f(3, 5, 8), f(3, 6, 4), f(3, 6, 6)]),
    ("MultiheadAttention", (8, 2), {"add_bias_kv": True, "add_zero_attn": True}, [f(5, 3, 8), f(6, 3, 8), f(6, 3, 8)]),
    ("TransformerEncoderLayer", (8, 2, 12), {"dropout": 0.0}, [f(5, 3, 8)]),
    ("TransformerEncoderLayer", (8, 2, 12), {"dropout": 0.0, "norm_first": True, "activation": "gelu"}, [f(5, 3, 8)]),
    ("TransformerDecoderLayer", (8, 2, 12), {"dropout": 0.0}, [f(5, 3, 8), f(4, 3, 8)]),
    ("Transformer", (8, 2, 1, 2, 12), {"dropout": 0.0, "batch_first": True}, [f(3, 5, 8), f(3, 4, 8)]),
    ("L1Loss", (), {}, [f(3, 4), f(3, 4)]),
    ("MSELoss", (), {"reduction": "sum"}, [f(3, 4), f(3, 4)]),
    ("SmoothL1Loss", (), {"beta": 0.5}, [f(3, 4), f(3, 4)]),
    ("HuberLoss", (), {"delta": 0.5}, [f(3, 4), f(3, 4)]),
    ("LinearCrossEntropyLoss", (5, 3), {"bias": True, "ignore_index": 2}, [f(6, 5), i(3, 6)]),
    ("LinearCrossEntropyLoss", (5, 3), {"out_features": (2,), "bias": True}, [f(6, 5), i(3, 6, 2)]),
    ("CrossEntropyLoss", (), {"label_smoothing": 0.1, "ignore_index": 2}, [f(6, 5), i(5, 6)]),
    ("NLLLoss", (), {"reduction": "none"}, [f(6, 5), i(5, 6)]),
    ("BCELoss", (), {}, [("unit", (3, 4)), ("unit", (3, 4))]),
    ("BCEWithLogitsLoss", (), {}, [f(3, 4), ("unit", (3, 4))]),
    ("KLDivLoss", (), {"reduction": "batchmean"}, [f(3, 4), ("unit", (3, 4))]),
    ("PoissonNLLLoss", (), {}, [f(3, 4), positive(3, 4)]),
    ("GaussianNLLLoss", (), {}, [f(3, 4), f(3, 4), positive(3, 4)]),
    ("MultiMarginLoss", (), {}, [f(3, 4), i(4, 3)]),
    ("MultiLabelMarginLoss", (), {}, [f(3, 4), i(4, 3, 4)]),
    ("SoftMarginLoss", (), {}, [f(3, 4), f(3, 4)]),
    ("TripletMarginLoss", (), {}, [f(3, 4), f(3, 4), f(3, 4)]),
    ("CosineSimilarity", (), {}, [f(3, 4), f(3, 4)]),
    ("PairwiseDistance", (), {}, [f(3, 4), f(3, 4)]),
]  # fmt: skip
NO_TARGET_GRADIENT = {
    "SoftMarginLoss",
    "GaussianNLLLoss",
    "KLDivLoss",
    "PoissonNLLLoss",
    "BCELoss",
    "BCEWithLogitsLoss",
}


def arrays(specs):
    rng = np.random.default_rng(1)
    out = []
    for kind, shape, *more in specs:
        if kind == "int":
            out.append(rng.integers(0, more[0], shape))
        elif kind == "float":
            out.append(rng.normal(size=shape))
        else:
            low, high = (0.1, 0.9) if kind == "unit" else (0.5, 2.0)
            out.append(rng.uniform(low, high, shape))
    return out


def tensors(library, given, name):
    grad = 1 if name in NO_TARGET_GRADIENT else len(given)
    made = [library.tensor(a) for a in given]
    return [
        t.requires_grad_() if k < grad and a.dtype.kind == "f" else t
        for k, (t, a) in enumerate(zip(made, given, strict=True))
    ]


def flat(out):
    return (
        [t for part in out for t in flat(part)]
        if isinstance(out, tuple | list)
        else []
        if out is None
        else [out]
    )
