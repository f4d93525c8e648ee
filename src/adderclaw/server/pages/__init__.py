"""The pages for people: one layout, one stylesheet and one script, rendered from the items of `agent/view`."""
