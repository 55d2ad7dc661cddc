"""At the edge: `eager.distributed.tensor`, PyTorch's tensors of which ranks have parts. a name ->
a class that nothing is of; how parts would lie can be written down.

Libraries ask of each tensor whether it is one, and list the layouts that they know."""

from eager.base.stub_modules import Absent as _Absent
from eager.base.stub_modules import absent as _absent
from eager.distributed.tensor.placement_types import Partial as Partial
from eager.distributed.tensor.placement_types import Placement as Placement
from eager.distributed.tensor.placement_types import Replicate as Replicate
from eager.distributed.tensor.placement_types import Shard as Shard

_WHY = "parameters are spread by dist.fsdp.fully_shard; other layouts are not there"
DTensor = _Absent("distributed.tensor.DTensor", _WHY)
distribute_tensor = _Absent("distributed.tensor.distribute_tensor", _WHY)
distribute_module = _Absent("distributed.tensor.distribute_module", _WHY)
_utils = _absent("distributed.tensor._utils", _WHY, "")
experimental = _absent("distributed.tensor.experimental", _WHY, "")
parallel = _absent("distributed.tensor.parallel", _WHY, "")
