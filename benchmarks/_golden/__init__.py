"""The cases of `make golden`.

They run once with the older and once with the newer tree, so that they take nothing but what is public: names of
`import cesaro as cs`, paths that the documentation names, and the command line.
"""
