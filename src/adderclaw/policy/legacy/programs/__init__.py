"""What is known of programs: tables of their options, and what of their words a table cannot say."""
