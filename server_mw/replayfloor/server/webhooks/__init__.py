"""Receivers of webhooks: one event applied once, for as long as its sender may deliver it again."""
