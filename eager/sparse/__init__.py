"""`eager.sparse`: tensors of which elements that are not zero are kept.

tensor.py    a `SparseTensor`, its arithmetic and products
make.py      `sparse_coo_tensor` and its like, `to_sparse`
"""

from eager.sparse.make import DoubleTensor as DoubleTensor
from eager.sparse.make import FloatTensor as FloatTensor
from eager.sparse.make import HalfTensor as HalfTensor
from eager.sparse.make import IntTensor as IntTensor
from eager.sparse.make import LongTensor as LongTensor
from eager.sparse.tensor import COO as COO
from eager.sparse.tensor import CSC as CSC
from eager.sparse.tensor import CSR as CSR
from eager.sparse.tensor import SparseTensor as SparseTensor
from eager.sparse.tensor import addmm as addmm
from eager.sparse.tensor import log_softmax as log_softmax
from eager.sparse.tensor import mm as mm
from eager.sparse.tensor import softmax as softmax
from eager.sparse.tensor import sum as sum
