"""Runs on the operator's machine: project, egg, verified on every node, active; and back."""
