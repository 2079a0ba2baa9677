"""Other libraries' formats, in and out."""
