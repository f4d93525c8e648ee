"""Which projects the operator trusts, and what trust covers."""
