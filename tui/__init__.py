"""The screen: a Textual app that follows journals and owns no truth."""
