"""`fairway accept`: accept clusters that request to join, and approve the certificate requests of their agents."""
