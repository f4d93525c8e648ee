"""Files that exist only in memory."""

import os


def memory_file(content: bytes) -> int:
    """A descriptor of a file in memory with these bytes; unlike a pipe, it needs no writer."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("adderclaw")
    else:
        import tempfile

        number, path = tempfile.mkstemp()
        os.unlink(path)
        fd = number
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
