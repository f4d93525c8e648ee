"""Plugins: fetching, installing and running their tools."""
