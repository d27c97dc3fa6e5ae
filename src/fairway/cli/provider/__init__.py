"""`fairway provider`: run score providers, list them, and delete their scores from a hub."""
