"""An idea in one file, from its contract to a page: what it costs, what it saves, what it loses."""
