"""Answers as people read them: text, a picture, a folder of both. Takes results and computes nothing."""
