"""What is sent to change a session that runs, or an image."""
from gpufairy.wire.read import Strict
from gpufairy.wire.submit import Text


class KeepBody(Strict):
    time: Text


class ImageBody(Strict):
    image: Text
