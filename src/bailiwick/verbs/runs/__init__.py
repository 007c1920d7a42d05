"""What agents did, told by the versions of what they changed, and taking it back."""
