"""A source that is fetched by a commit."""
