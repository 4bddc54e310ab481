"""Reading a source tree: files, segments of files, syntax, and the paths through a function."""
