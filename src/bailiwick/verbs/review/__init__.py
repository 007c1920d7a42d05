"""What is left to look at of what agents did, and what people say of it."""
