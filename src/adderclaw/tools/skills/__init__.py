"""Skills: what there is (catalogue), which fits a task (router), and how much of one is shown (disclosure)."""
