"""How much and how often: what counts against quotas and rates."""
