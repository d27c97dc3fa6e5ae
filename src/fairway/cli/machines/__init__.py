"""`fairway machines`: virtual machines that grow, and move to make room."""
