"""The folder of one running job: what its node and its spider process tell each other, through files."""
