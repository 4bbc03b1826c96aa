"""Runs student code in processes of its own: protocol, launcher, confinement, worker, client."""
