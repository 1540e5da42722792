"""What the operators of one cluster share: releases, locks, job records. Nobody else speaks Redis."""
