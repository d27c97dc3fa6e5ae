"""What a hub no longer knows: it says so, and how to go on."""
