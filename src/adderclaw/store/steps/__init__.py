"""The steps that bring a database up to date, by what their tables are about; `migrations` has their order."""
