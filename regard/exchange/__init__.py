"""Models in and out of other projects' formats, each with a verification report."""
