"""The ledger of receipts: the hash chain, its files, its mirror and its verification."""
