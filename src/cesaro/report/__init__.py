"""What people read: text, a picture, a folder of both. Takes results and computes nothing."""
