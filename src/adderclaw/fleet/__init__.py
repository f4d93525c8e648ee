"""Many machines: runs that are submitted once and worked on by whichever worker is there, on PostgreSQL."""
