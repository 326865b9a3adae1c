"""What goes wrong with a run, in a sentence for the person who started it."""


class TrainingError(Exception):
    """A run cannot start or go on; the message says why and what to do."""


class Stopped(TrainingError):
    """A run stopped on the way; what was saved last is whole."""
