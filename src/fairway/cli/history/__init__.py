"""`fairway history`, `fairway why` and `fairway replay`: read the history of decisions."""
