"""One thin module per command: parse, call, show."""
