"""How the process that asks the driver ends, for those who started it. Apart from nvml_child.py, which loads the driver's library."""
FAILED = 1
NO_DRIVER = 3  # there is no library of a driver: asking again soon is of no use
TOO_OLD = 4  # the driver's library lacks what was asked for
