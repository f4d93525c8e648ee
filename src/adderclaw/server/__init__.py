"""The server on this machine: who may come in, what a program may ask, and the pages that people watch it by."""
