"""Builds every object and starts them; nobody imports it but the command line's table, by name."""
