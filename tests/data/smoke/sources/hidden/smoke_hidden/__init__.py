"""A source of which nothing but its commit is known."""
