"""The server on this machine: authentication, the API for programs, and the pages for people."""
