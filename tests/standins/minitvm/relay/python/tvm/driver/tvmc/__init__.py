"""The command-line driver of the miniature: only its presence counts."""
