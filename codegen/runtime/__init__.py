"""The runtime that all backends share: the artifact, the cache on disk, callbacks."""
