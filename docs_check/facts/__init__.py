"""What a release's code says: names, choices, sets, guards, selections, symbols."""
