"""Verification: a container's facts, the checks over them, and what is reported of them."""
