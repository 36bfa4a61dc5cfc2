"""Groups that change their protocol while they run: classic to consumer and back (KIP-848)."""
