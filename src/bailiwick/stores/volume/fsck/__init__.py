"""Whether a volume is sound, and whether its file is really ours."""
