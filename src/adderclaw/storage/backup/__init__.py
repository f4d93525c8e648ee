"""What is done with a home as a whole: backup, restore, uninstall."""
