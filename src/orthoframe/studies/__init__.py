"""Studies: one file for each claim that is tested, and what runs them."""
