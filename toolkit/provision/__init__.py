"""Runs on the operator's machine: makes hosts into nodes. Here: local hosts, as processes."""
