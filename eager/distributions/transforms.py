"""All transforms in one namespace. transform classes -> `eager.distributions.transforms.<name>`."""

from eager.distributions.scalar_transforms import (
    AbsTransform as AbsTransform,
)
from eager.distributions.scalar_transforms import (
    AffineTransform as AffineTransform,
)
from eager.distributions.scalar_transforms import (
    ComposeTransform as ComposeTransform,
)
from eager.distributions.scalar_transforms import (
    ExpTransform as ExpTransform,
)
from eager.distributions.scalar_transforms import (
    IndependentTransform as IndependentTransform,
)
from eager.distributions.scalar_transforms import (
    PowerTransform as PowerTransform,
)
from eager.distributions.scalar_transforms import (
    SigmoidTransform as SigmoidTransform,
)
from eager.distributions.scalar_transforms import (
    SoftmaxTransform as SoftmaxTransform,
)
from eager.distributions.scalar_transforms import (
    SoftplusTransform as SoftplusTransform,
)
from eager.distributions.scalar_transforms import (
    TanhTransform as TanhTransform,
)
from eager.distributions.scalar_transforms import (
    Transform as Transform,
)
from eager.distributions.scalar_transforms import (
    identity_transform as identity_transform,
)
from eager.distributions.transforms_of_parts import (
    CatTransform as CatTransform,
)
from eager.distributions.transforms_of_parts import (
    CorrCholeskyTransform as CorrCholeskyTransform,
)
from eager.distributions.transforms_of_parts import (
    CumulativeDistributionTransform as CumulativeDistributionTransform,
)
from eager.distributions.transforms_of_parts import (
    LowerCholeskyTransform as LowerCholeskyTransform,
)
from eager.distributions.transforms_of_parts import (
    PositiveDefiniteTransform as PositiveDefiniteTransform,
)
from eager.distributions.transforms_of_parts import (
    ReshapeTransform as ReshapeTransform,
)
from eager.distributions.transforms_of_parts import (
    StackTransform as StackTransform,
)
from eager.distributions.transforms_of_parts import (
    StickBreakingTransform as StickBreakingTransform,
)
