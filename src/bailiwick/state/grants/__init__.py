"""Who may do what: grants, the tokens that stand for them, and trust in roots."""
