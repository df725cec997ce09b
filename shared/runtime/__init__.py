"""Plumbing every process shares: settings, logs, loop, database, metrics, failpoints, the operations port."""
