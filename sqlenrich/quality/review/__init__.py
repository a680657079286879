"""People judge a sample of the answers: the sample, the sheets, the verdicts, the share wrong."""
