"""Named option sets rendered to config.cmake and checked against the tree's catalogue."""
