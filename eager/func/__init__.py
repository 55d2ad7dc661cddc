"""`eager.func`: functions of functions, as `torch.func` has them.

`transforms`: gradients, Jacobians and products with them; `models`: stacked state of models.
"""

from eager.autograd.vmapped import vmap as vmap
from eager.func.models import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from eager.func.models import stack_module_state as stack_module_state
from eager.func.transforms import grad as grad
from eager.func.transforms import grad_and_value as grad_and_value
from eager.func.transforms import hessian as hessian
from eager.func.transforms import jacfwd as jacfwd
from eager.func.transforms import jacrev as jacrev
from eager.func.transforms import jvp as jvp
from eager.func.transforms import linearize as linearize
from eager.func.transforms import vjp as vjp
from eager.nn.utils.stateless import functional_call as functional_call
