"""Commands of the command line: arguments, output and exit codes only; the work is done elsewhere."""
