"""Timing under one protocol: the calls, the pairs, the statistics and what they pay.

Runs inside three processes: ``timed_calls`` and ``stopwatch`` in the student's and the baselines',
everything else in the verifier. Starts no process and reads no submission.
"""
