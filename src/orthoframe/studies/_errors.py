"""What keeps a study from being run, in a sentence for the person who started it."""


class StudyError(Exception):
    """A study cannot be run; the message says why and what to do."""
