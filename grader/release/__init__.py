"""What leaves the course's repository: the stubs that students fill."""
