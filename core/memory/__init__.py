"""A step's memory as a timeline: from allocator events to levels, categories and pictures."""
