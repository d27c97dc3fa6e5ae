"""The function libraries of the language, one module per library."""
