"""The paper made again: its rivals, its tables and figures. Not part of the package."""
