"""The group coordinator itself: requests and time in, responses and records out."""
