"""Tables, each defined once, and the formats that they are written in."""
