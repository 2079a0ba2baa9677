"""One reader for each file type, chosen by the file's ending."""
