"""Studies of ours that are not the paper's: see README.md. They need a clone of the repository and are not in the wheel."""
