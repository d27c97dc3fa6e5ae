"""`fairway addon`: install the add-on on managed clusters, show its status, and remove it."""
