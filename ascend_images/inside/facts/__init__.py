"""Facts: what was seen in an image, written down without judging it."""
