"""The one way to touch files of the workspace from outside the sandbox: by descriptor, and through no link."""

from adderclaw.workspace.endless import endless
from adderclaw.workspace.folder import Folder, folder
from adderclaw.workspace.naming import is_directory, is_named, is_regular, reached
from adderclaw.workspace.place import Place, anywhere, beneath_root, inside, shown
from adderclaw.workspace.reading import (
    MAX_BYTES,
    Entry,
    Old,
    current,
    entries,
    exists,
    is_file,
    is_folder,
    open_file,
    open_folder,
    read,
    read_all,
    readlink,
    scan,
    start,
    status,
    walk,
)
from adderclaw.workspace.removing import move_out, remove, remove_tree, rename
from adderclaw.workspace.writing import chmod, make_folders, put_link, replace, write

__all__ = (
    "MAX_BYTES",
    "Entry",
    "Folder",
    "Old",
    "Place",
    "anywhere",
    "beneath_root",
    "chmod",
    "current",
    "endless",
    "entries",
    "exists",
    "folder",
    "inside",
    "is_directory",
    "is_file",
    "is_folder",
    "is_named",
    "is_regular",
    "make_folders",
    "move_out",
    "open_file",
    "open_folder",
    "put_link",
    "reached",
    "read",
    "read_all",
    "readlink",
    "remove",
    "remove_tree",
    "rename",
    "replace",
    "scan",
    "shown",
    "start",
    "status",
    "walk",
    "write",
)
