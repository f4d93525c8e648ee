"""Work that begins by itself: at a time, when a file changes, or on a signed request; one tick begins all of it."""
