"""Compiles launched kernels with the real Triton for a GPU that need not be there.

Runs in a process of its own, beside the student's file imported with the real Triton. Loads and
launches nothing, and judges nothing.
"""
