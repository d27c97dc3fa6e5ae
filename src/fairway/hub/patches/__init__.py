"""How documents change: patches of all four types, and who owns which field."""
