"""The Monitor view: the cards and the host, whatever runs on them."""
