"""When work begins by itself: by the clock, by a changed file, by a signed request; and the one tick that begins it."""
