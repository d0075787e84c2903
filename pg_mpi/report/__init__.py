"""Write a self-contained HTML report of run folders. Reads only the folders' files."""
