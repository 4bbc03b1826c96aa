"""kernelgrade: grades GPU-kernel assignments. Knows no particular problem."""

__version__ = "0.1.0"
