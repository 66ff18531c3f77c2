"""The commands of `cesaro`, and the options and the program around them. Heavy imports are within functions, for quick help."""
