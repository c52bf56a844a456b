"""What was built: collected, stripped, read (ELF facts), listed in a manifest."""
