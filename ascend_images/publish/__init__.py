"""Publishing: built images joined to one for all platforms, and readable tags for what passed its checks."""
