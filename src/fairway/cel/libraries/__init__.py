"""The functions an expression may call, one module per library."""
