"""Locks: what the pins mean today; the one room that looks things up on the network to decide."""
