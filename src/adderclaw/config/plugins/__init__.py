"""Installed plugins: their manifests, folders and trust."""
