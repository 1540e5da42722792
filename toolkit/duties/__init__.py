"""What any survivor does: idempotent steps of housekeeping, each guarded inside Redis."""
