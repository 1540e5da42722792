"""Who is told what: rules, quiet times, and the ways a message takes out of the cluster. Knows no Redis."""
