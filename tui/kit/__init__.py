"""What every view is made of; knows no run that is watched, and no view."""
