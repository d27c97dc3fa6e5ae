"""Who may do what: certificates, tokens, roles, reviews, signatures."""
