"""Mistakes that beginners make, and what an error has to say of each: what, why, what to do.

A program is the body of a function of `torch` (the library), `nn`, `F`, `optim` and `np`. The same
programs run on PyTorch: `python tests/behaviour/test_mistakes.py`, with `tests/helpers` in PYTHONPATH, shows what both say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    name: str
    program: str
    error: type[BaseException]
    words: tuple[str, ...]  # of the message, all of them
    frames: int  # of the library's, behind the user's line, at the most


def mistake(
    name: str, error: type[BaseException], words: str, program: str, frames: int = 1
) -> Mistake:
    """`words` are separated by bars."""
    return Mistake(name, program, error, tuple(words.split("|")), frames)


SHAPES = [
    mistake("add", RuntimeError, "add|(2, 3)|(4, 5)", "torch.ones(2, 3) + torch.ones(4, 5)"),
    mistake(
        "matmul",
        RuntimeError,
        "matmul|(2, 3)|(2, 3)",
        "torch.ones(2, 3) @ torch.ones(2, 3)",
    ),
    mistake(
        "linear",
        RuntimeError,
        "linear|(4, 8)|in_features=5",
        "nn.Linear(5, 2)(torch.ones(4, 8))",
    ),
    mistake(
        "linear behind convolution",
        RuntimeError,
        "linear|in_features=64|flatten",
        "m = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Linear(64, 2))\nm(torch.ones(2, 1, 6, 6))",
    ),
    mistake("view", RuntimeError, "[7]|size 6", "torch.ones(2, 3).view(7)"),
    mistake(
        "view of transposed",
        RuntimeError,
        "view|stride|reshape",
        "torch.ones(2, 3).t().view(6)",
    ),
    mistake("reshape", RuntimeError, "[-1, 4]|size 6", "torch.ones(2, 3).reshape(-1, 4)"),
    mistake(
        "cat", RuntimeError, "cat|(2, 3)|(4, 5)", "torch.cat([torch.ones(2, 3), torch.ones(4, 5)])"
    ),
    mistake(
        "stack",
        RuntimeError,
        "stack|[2]|[3]|pad_sequence",
        "torch.stack([torch.ones(2), torch.ones(3)])",
    ),
    mistake(
        "channels of convolution",
        RuntimeError,
        "weight|[8, 3, 3, 3]|3 channels|1 channels",
        "nn.Conv2d(3, 8, 3)(torch.ones(4, 1, 8, 8))",
    ),
    mistake(
        "image without channels",
        RuntimeError,
        "conv2d|(28, 28)|unsqueeze",
        "nn.Conv2d(1, 8, 3)(torch.ones(28, 28))",
    ),
    mistake(
        "channels last",
        RuntimeError,
        "3 channels|32|permute(0, 3, 1, 2)",
        "nn.Conv2d(3, 8, 3)(torch.ones(4, 32, 32, 3))",
    ),
    mistake(
        "kernel too large",
        RuntimeError,
        "kernel|5|3",
        "nn.Conv2d(1, 1, 5)(torch.ones(1, 1, 3, 3))",
    ),
    mistake(
        "features of batch norm",
        RuntimeError,
        "4|[2, 5]|channels",
        "nn.BatchNorm1d(4)(torch.ones(2, 5))",
    ),
    mistake(
        "batch norm of one",
        ValueError,
        "more than 1 value per channel|eval()",
        "nn.BatchNorm1d(4)(torch.ones(1, 4))",
    ),
    mistake(
        "rank of batch norm",
        ValueError,
        "BatchNorm2d|4D|3D",
        "nn.BatchNorm2d(4)(torch.ones(2, 4, 5))",
    ),
    mistake(
        "shape of layer norm",
        RuntimeError,
        "normalized_shape=[5]|[2, 3, 4]",
        "nn.LayerNorm(5)(torch.ones(2, 3, 4))",
    ),
    mistake(
        "input of LSTM",
        RuntimeError,
        "LSTM|input_size=4|5",
        "nn.LSTM(4, 3)(torch.ones(2, 6, 5))",
    ),
    mistake(
        "hidden of GRU",
        RuntimeError,
        "hidden|(1, 6, 3)|[1, 2, 3]",
        "nn.GRU(4, 3)(torch.ones(2, 6, 4), torch.ones(1, 2, 3))",
    ),
    mistake(
        "attention lengths",
        AssertionError,
        "key shape (5, 1, 4)|value shape (6, 1, 4)",
        "q, k, v = torch.ones(3, 1, 4), torch.ones(5, 1, 4), torch.ones(6, 1, 4)\n"
        "nn.MultiheadAttention(4, 2)(q, k, v)",
    ),
    mistake(
        "attention heads",
        AssertionError,
        "embed_dim|num_heads|divisible|10|3",
        "nn.MultiheadAttention(10, 3)",
    ),
    mistake("bmm", RuntimeError, "bmm|3|2", "torch.bmm(torch.ones(2, 3), torch.ones(3, 4))"),
    mistake("dot", RuntimeError, "1D|matmul", "torch.dot(torch.ones(2, 3), torch.ones(2, 3))"),
    mistake("expand", RuntimeError, "expand|3|4", "torch.ones(2, 3).expand(2, 4)"),
    mistake("t of a batch", RuntimeError, "t()|2 dimensions|3D", "torch.ones(2, 3, 4).t()"),
    mistake("permute", RuntimeError, "permute|3|2", "torch.ones(2, 3, 4).permute(1, 0)"),
    mistake("split", RuntimeError, "split|[2, 2]|5", "torch.ones(5).split([2, 2])"),
    mistake(
        "pooled away",
        RuntimeError,
        "max_pool|(2, 2)|(3, 3)|too small",
        "F.max_pool2d(torch.ones(1, 1, 2, 2), 3)",
    ),
    mistake("dim of sum", IndexError, "sum|[-2, 1]|5", "torch.ones(2, 3).sum(5)"),
    mistake(
        "einsum",
        RuntimeError,
        "einsum|j|3|4",
        "torch.einsum('ij,jk->ik', torch.ones(2, 3), torch.ones(4, 5))",
    ),
]

INDICES = [
    mistake("index", IndexError, "index 5|dimension 0|[2, 3]", "torch.ones(2, 3)[5]"),
    mistake("too many indices", IndexError, "too many|2: 3", "torch.ones(2, 3)[0, 1, 2]"),
    mistake(
        "mask of another shape",
        IndexError,
        "mask|[3]|[2, 3]",
        "torch.ones(2, 3)[torch.tensor([True, False, True])]",
    ),
    mistake("float index", IndexError, "indices|float32|long", "torch.ones(3)[torch.ones(2)]"),
    mistake(
        "gather",
        RuntimeError,
        "gather|index 3|size 3",
        "torch.ones(2, 3).gather(1, torch.tensor([[3], [0]]))",
    ),
    mistake(
        "token out of range",
        IndexError,
        "embedding|index 10|10 rows|num_embeddings",
        "nn.Embedding(10, 3)(torch.tensor([1, 10]))",
    ),
    mistake(
        "token of floats",
        RuntimeError,
        "embedding|float32|long()",
        "nn.Embedding(10, 3)(torch.tensor([1.0, 2.0]))",
    ),
]

TYPES = [
    mistake(
        "ints into a layer",
        RuntimeError,
        "linear|int64|float32|float()",
        "nn.Linear(3, 2)(torch.ones(4, 3, dtype=torch.int64))",
    ),
    mistake(
        "doubles of NumPy into a layer",
        RuntimeError,
        "linear|float64|float32|float()",
        "nn.Linear(3, 2)(torch.from_numpy(np.ones((4, 3))))",
    ),
    mistake("mean of ints", RuntimeError, "mean|int64|float()", "torch.tensor([1, 2]).mean()"),
    mistake(
        "gradient of ints",
        RuntimeError,
        "floating point|int64",
        "torch.tensor([1, 2], requires_grad=True)",
    ),
    mistake(
        "ragged list", ValueError, "length 2|got 1|pad_sequence", "torch.tensor([[1, 2], [3]])"
    ),
    mistake("None in a tensor", RuntimeError, "of NoneType|leave", "torch.tensor([1.0, None])"),
    mistake("text in a tensor", ValueError, "str|number", "torch.tensor(['a', 'b'])"),
    mistake(
        "float into ints",
        RuntimeError,
        "float32|int64|cast|.to(float32)",
        "x = torch.tensor([1, 2])\nx += torch.tensor([0.5, 0.5])",
    ),
    mistake("number in place of a tensor", TypeError, "relu|Tensor|float", "torch.relu(1.5)"),
    mistake("device", RuntimeError, "gpu|cpu|cuda", "torch.ones(2, device='gpu')"),
    mistake("no GPU", RuntimeError, "cuda|not available", "torch.ones(2).to('cuda')"),
]

LOSSES = [
    mistake(
        "labels of floats",
        RuntimeError,
        "cross_entropy|float32|int64|long()",
        "F.cross_entropy(torch.ones(2, 3), torch.tensor([0.0, 2.0]))",
    ),
    mistake(
        "label out of range",
        IndexError,
        "Target 3|3 classes|0 to 2",
        "F.cross_entropy(torch.ones(2, 3), torch.tensor([0, 3]))",
    ),
    mistake(
        "labels in a column",
        RuntimeError,
        "cross_entropy|[4, 1]|squeeze",
        "F.cross_entropy(torch.ones(4, 3), torch.tensor([[0], [1], [2], [0]]))",
    ),
    mistake(
        "classes last",
        RuntimeError,
        "cross_entropy|[2, 5, 3]|[2, 5]|transpose(1, 2)",
        "F.cross_entropy(torch.ones(2, 5, 3), torch.zeros(2, 5, dtype=torch.int64))",
    ),
    mistake(
        "batches of two sizes",
        ValueError,
        "batch|4|3|first dimension",
        "F.cross_entropy(torch.ones(4, 3), torch.tensor([0, 1, 2]))",
    ),
    mistake(
        "labels first",
        RuntimeError,
        "cross_entropy|input|int64",
        "F.cross_entropy(torch.tensor([0, 1]), torch.ones(2, 3))",
    ),
    mistake(
        "scores into binary_cross_entropy",
        RuntimeError,
        "between 0 and 1|sigmoid|with_logits",
        "F.binary_cross_entropy(torch.tensor([1.5]), torch.tensor([1.0]))",
    ),
    mistake(
        "sizes of binary_cross_entropy",
        ValueError,
        "[4, 1]|[4]|squeeze",
        "F.binary_cross_entropy_with_logits(torch.ones(4, 1), torch.ones(4))",
    ),
    mistake(
        "labels of ints in binary_cross_entropy",
        RuntimeError,
        "int64|float()",
        "F.binary_cross_entropy_with_logits(torch.ones(4), torch.ones(4, dtype=torch.int64))",
    ),
    mistake(
        "broadcast loss",
        UserWarning,
        "(8,)|(8, 1)|squeeze",
        "nn.MSELoss()(torch.ones(8, 1), torch.ones(8))",
    ),
    mistake(
        "word for reduction",
        ValueError,
        "'avg'|'mean'|'sum'|'none'",
        "F.mse_loss(torch.ones(2), torch.ones(2), reduction='avg')",
    ),
]

GRADIENTS = [
    mistake(
        "backward of many",
        RuntimeError,
        "scalar|(3,)|mean()",
        "x = torch.ones(3, requires_grad=True)\n(x * 2).backward()",
    ),
    mistake(
        "backward twice",
        RuntimeError,
        "second time|retain_graph=True|freed",
        "x = torch.ones(3, requires_grad=True)\ny = (x * x).sum()\ny.backward()\ny.backward()",
    ),
    mistake(
        "backward of what has no history",
        RuntimeError,
        "requires_grad|no_grad|detach",
        "torch.ones(3).sum().backward()",
    ),
    mistake(
        "in place on a leaf",
        RuntimeError,
        "leaf|in-place|no_grad",
        "x = torch.ones(3, requires_grad=True)\nx += 1",
    ),
    mistake(
        "in place on what backward needs",
        RuntimeError,
        "in-place|exp|clone()",
        "x = torch.ones(3, requires_grad=True)\ny = x.exp()\ny += 1\ny.sum().backward()",
    ),
    mistake(
        "numpy with a gradient",
        RuntimeError,
        "numpy()|detach().numpy()",
        "torch.ones(2, requires_grad=True).numpy()",
    ),
    mistake(
        "grad of a result",
        UserWarning,
        ".grad|leaf|retain_grad()",
        "x = torch.ones(2, requires_grad=True)\ny = x * 2\ny.sum().backward()\ny.grad",
    ),
    mistake(
        "unused input",
        RuntimeError,
        "index 1|(3,)|allow_unused=True",
        "a, b = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)\n"
        "torch.autograd.grad(a.sum(), [a, b])",
    ),
    mistake("item of many", RuntimeError, "item|3 elements|tolist()", "torch.ones(3).item()"),
    mistake(
        "truth of many",
        RuntimeError,
        "ambiguous|any()|all()",
        "if torch.ones(3) > 0:\n    pass",
    ),
    mistake(
        "backward of item", AttributeError, "float|backward", "torch.ones(()).item().backward()"
    ),
]

MODELS = [
    mistake(
        "no super().__init__()",
        AttributeError,
        "super().__init__()",
        "class Net(nn.Module):\n    def __init__(self):\n        self.fc = nn.Linear(2, 2)\nNet()",
    ),
    mistake(
        "no forward",
        NotImplementedError,
        "Net|forward|define",
        "class Net(nn.Module):\n    pass\nNet()(torch.ones(2))",
    ),
    mistake(
        "layers in a list",
        ValueError,
        "empty parameter list|ModuleList",
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layers = [nn.Linear(2, 2)]\noptim.SGD(Net().parameters(), lr=0.1)",
    ),
    mistake(
        "model in place of parameters",
        TypeError,
        "Linear|model.parameters()",
        "optim.SGD(nn.Linear(2, 2), lr=0.1)",
    ),
    mistake(
        "optimizer of a result",
        ValueError,
        "non-leaf",
        "optim.SGD([torch.ones(2, requires_grad=True) * 2], lr=0.1)",
    ),
    mistake(
        "negative rate",
        ValueError,
        "learning rate|-1",
        "optim.Adam(nn.Linear(2, 2).parameters(), lr=-1)",
        2,
    ),
    mistake(
        "keys of a checkpoint",
        RuntimeError,
        "Missing key|weight|Unexpected key|module.weight|removeprefix",
        "m = nn.Linear(2, 3)\n"
        "m.load_state_dict({'module.' + k: v for k, v in m.state_dict().items()})",
    ),
    mistake(
        "sizes of a checkpoint",
        RuntimeError,
        "size mismatch|weight|[5, 2]|[3, 2]",
        "nn.Linear(2, 3).load_state_dict(nn.Linear(2, 5).state_dict())",
    ),
    mistake(
        "tensor in place of a parameter",
        TypeError,
        "weight|nn.Parameter(|copy_",
        "m = nn.Linear(2, 2)\nm.weight = torch.ones(2, 2)",
        2,
    ),
    mistake(
        "list into Sequential",
        TypeError,
        "list|Module|*",
        "nn.Sequential([nn.Linear(2, 2), nn.ReLU()])",
        2,
    ),
    mistake(
        "scheduler first",
        UserWarning,
        "lr_scheduler.step()|optimizer.step()",
        "o = optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)\n"
        "s = optim.lr_scheduler.StepLR(o, 1)\ns.step()\no.step()",
    ),
    mistake("dropout of 2", ValueError, "dropout|between 0 and 1|2", "nn.Dropout(2)"),
    mistake(
        "samples of two sizes",
        RuntimeError,
        "stack|[2]|[3]|collate_fn",
        "data = [torch.ones(2), torch.ones(3)]\n"
        "next(iter(torch.utils.data.DataLoader(data, batch_size=2)))",
        9,
    ),
    mistake(
        "misspelled function", AttributeError, "sotfmax|softmax", "torch.sotfmax(torch.ones(2))"
    ),
    mistake("misspelled layer", AttributeError, "Conv2D|Conv2d", "nn.Conv2D(1, 1, 1)"),
    mistake(
        "layer in the wrong module",
        AttributeError,
        "nn.CrossEntropyLoss",
        "torch.CrossEntropyLoss()",
    ),
]

MISTAKES = [*SHAPES, *INDICES, *TYPES, *LOSSES, *GRADIENTS, *MODELS]
