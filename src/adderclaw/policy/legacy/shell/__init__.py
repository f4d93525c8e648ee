"""Shell text into a plan that the gate can judge, and the plan into text of our own."""
