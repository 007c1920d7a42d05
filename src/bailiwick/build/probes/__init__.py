"""What is asked of the places of an authority from outside of its roots."""
