"""The process: its threads and locks, how deep calls go, memory that is reused, who launched it."""
