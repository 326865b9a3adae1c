"""Which examples meet."""
