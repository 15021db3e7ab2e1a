"""A fake MPS server: as the real one, it ends with its daemon."""
import sys

sys.stdin.read()
