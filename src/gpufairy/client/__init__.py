"""The SDK: `Fairy` for scripts; `gpufairy.client.aio.AsyncFairy` for event loops (not imported here: aiohttp is slow to load)."""
from gpufairy.client.errors import Problem, ServerNotReached
from gpufairy.client.sync import Fairy

__all__ = ["Fairy", "Problem", "ServerNotReached"]
