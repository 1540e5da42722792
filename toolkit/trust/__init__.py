"""Who may be believed: keys, signatures of eggs, certificates. The one room with cryptography; it speaks to nobody."""
