"""`eager.signal`: what `torch.signal` has, the windows."""

from eager.signal import windows as windows
