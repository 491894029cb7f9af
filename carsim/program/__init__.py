"""Programs: the work of a step as data. Blocks of layers, what they read, and who skips them."""
