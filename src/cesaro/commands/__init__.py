"""The commands of `cesaro` that are more than a few lines. Heavy imports are within functions, for quick help."""
