"""Checks public repositories, as a newcomer's own folder of checkouts has them; see CONTRIBUTING.md."""
