"""Looking at a log before it is used: evidence on how it was described, and proposals."""
