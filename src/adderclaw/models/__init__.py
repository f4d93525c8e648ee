"""Model providers, the credentials for them, and the HTTP clients."""
