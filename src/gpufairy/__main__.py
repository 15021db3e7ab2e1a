"""`python -m gpufairy` is `fairy`."""
from gpufairy.cli.entry import run

run()
