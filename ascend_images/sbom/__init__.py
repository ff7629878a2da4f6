"""What an image is made of, as a software bill of materials: by its record and its lock, in SPDX or CycloneDX."""
