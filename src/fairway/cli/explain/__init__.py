"""`fairway explain`: why a placement selected these clusters, why not others, and what would change that."""
