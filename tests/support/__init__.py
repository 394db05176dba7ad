"""What several test files share. Fakes that users may want too live in `replayfloor.testing`."""
