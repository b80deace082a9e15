"""Decoding of the keys and values of coordinator records. The files in ``schemas/records`` define their fields."""
