"""Getting a TVM tree, pinning it, and reading from its own files what it is and can do."""
