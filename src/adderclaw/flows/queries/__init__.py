"""What commands and pages show about runs, schedules and SOPs."""
