"""`distributed.checkpoint.state_dict`, under PyTorch's name: the functions of
`distributed.state_dict`.
"""

from eager.distributed.state_dict import StateDictOptions as StateDictOptions
from eager.distributed.state_dict import get_model_state_dict as get_model_state_dict
from eager.distributed.state_dict import get_optimizer_state_dict as get_optimizer_state_dict
from eager.distributed.state_dict import get_state_dict as get_state_dict
from eager.distributed.state_dict import set_model_state_dict as set_model_state_dict
from eager.distributed.state_dict import set_optimizer_state_dict as set_optimizer_state_dict
from eager.distributed.state_dict import set_state_dict as set_state_dict
