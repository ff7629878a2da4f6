"""A source that is fetched by an annotated tag."""
