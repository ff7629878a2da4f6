"""Images: a Variant becomes a Dockerfile, a bake file and a built image."""
