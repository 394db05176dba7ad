"""What tests use, shipped: nothing in here is needed to run a server or a client."""
