"""Experiments for students and lecturers: see why something is slow, or how fast it is."""
