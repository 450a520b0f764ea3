"""A run as a picture: processes as life lines, signals as arrows, stages of the ladder as bands."""
