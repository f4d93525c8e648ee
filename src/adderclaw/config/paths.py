"""What lies beneath what, by name alone: the one comparison that the gate and the sandbox share."""


def beneath(path: str, folder: str) -> bool:
    """Whether a path is that folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
