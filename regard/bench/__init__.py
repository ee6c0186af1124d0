"""Speed comparisons with other libraries, interleaved in one run."""
