"""The pages that people watch the server by: one layout, one stylesheet, one script, drawn from the view's items."""
