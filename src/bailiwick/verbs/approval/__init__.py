"""What a person is shown of a change, and what their answer is bound to."""
