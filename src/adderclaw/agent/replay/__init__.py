"""Records what reaches a run from outside, so that the run can be replayed, compared and judged again."""
