"""Mutants: the code changed on purpose, one small change at a time, to see whether a test notices.

A few hundred lines of our own over `ast`: mutmut needs libcst and a folder of rewritten code, cosmic-ray
changes the files of the working tree; here nothing in it changes, and a mutant costs about a second.
"""
