"""The runs of the tests: which belong to which size, in which order, what was left out and why, and where the time went.

`./test` is the command; `python -m tests.suite` is what it becomes. No test of the product lies here.
"""
