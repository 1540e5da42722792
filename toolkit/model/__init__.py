"""The nouns: frozen values, states and their legal transitions, the error tree. Standard library only."""
