"""gpufairy: share GPUs fairly."""
__version__ = "0.2.0"
