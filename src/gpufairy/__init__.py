"""gpufairy: share GPUs fairly."""
__version__ = "0.1.0"
