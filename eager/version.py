"""At the edge: `eager.version`, what the library was built with, as programs print it."""

from typing import Final

__version__: Final = "0.1.0"  # beside that of pyproject.toml
cuda: Final[str | None] = None  # nothing is compiled against CUDA: the driver is asked at run time
hip: Final[str | None] = None
debug: Final = False
