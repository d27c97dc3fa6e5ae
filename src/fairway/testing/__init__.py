"""What tests of Fairway, and of plugins for it, are written with."""
