"""`fairway simulate`: replay traces under several policies, without a hub."""
