"""Parse, call, print. One printer, one table from error to exit code and hint."""
