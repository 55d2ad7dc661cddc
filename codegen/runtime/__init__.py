"""What the runtimes of all backends share: the artifact, the cache on disk, callbacks."""
