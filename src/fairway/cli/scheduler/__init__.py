"""`fairway scheduler`: check scheduler configurations, and list plugins."""
