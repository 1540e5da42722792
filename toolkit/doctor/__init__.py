"""What is wrong with a cluster, and what mends it: looks at everything, and changes only what it is told to."""
