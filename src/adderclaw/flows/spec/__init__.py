"""Works through a SPEC.md: coding sessions, one after another, until every scenario of it has passed."""
