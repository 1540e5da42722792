"""Runs on the operator's machine: moves items out of a crawl, seeds into it, and whole crawls in and out."""
