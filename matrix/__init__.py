"""What is true of each SGLang release: data files, their schema and their loader."""
