"""Speed and memory, always as ratios against a peer in the same run. Never run by the tests."""
