"""A decoder opened up: where it comes from, its five parts, the loop over packed rows, and attention."""
