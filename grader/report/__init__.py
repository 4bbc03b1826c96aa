"""A scorecard, shown. Reads cards and never changes or computes a score; imports no torch."""
