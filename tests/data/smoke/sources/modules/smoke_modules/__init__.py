"""A source with a submodule."""
