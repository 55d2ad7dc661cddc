"""Beside the pipeline: the compile cache on disk, as users see it. -> size, place, clear."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from codegen.runtime import cache as disk


class CompileCache:
    """The cache directory of this process (`JITCAP_CACHE_DIR`, else below the user's cache)."""

    @property
    def directory(self) -> Path:
        return disk.default().roots[-1]

    def size(self) -> int:
        """Bytes on disk."""
        return disk.default().size()

    def clear(self) -> None:
        """Delete every entry. What is loaded goes on working."""
        disk.default().clear()

    def __repr__(self) -> str:
        return f"<cache {self.directory}, {self.size() >> 20} MiB>"


cache: Final = CompileCache()
