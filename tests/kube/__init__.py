"""A real Kubernetes of the tests' own: its programs are built from their published sources, and one node is this machine."""
