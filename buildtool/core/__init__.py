"""The ground floor: errors, processes, files, locks, hashing, console. Knows nothing of TVM."""
