"""From a graph to an executable: the stages in order, and the graphs kept on disk."""
