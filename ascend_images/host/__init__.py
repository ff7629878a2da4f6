"""The host that runs the images: its devices, its driver and what they say of themselves."""
