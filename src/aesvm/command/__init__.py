"""The program ``aesvm``: LIBSVM's command line, and what it lacks."""
