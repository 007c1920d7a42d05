"""Every operation on record: how records get there, why they can be believed."""
