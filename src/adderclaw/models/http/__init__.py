"""The HTTP client for everything except models: allowed addresses, proxies, certificates and signed requests."""
