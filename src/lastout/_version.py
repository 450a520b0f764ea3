"""The version, in one place: the build reads it from here for the package and for the native program."""

__version__ = "0.1.0"
