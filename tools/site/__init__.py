"""What turns the pages of docs/ into a site: `make docs`. See `hooks`."""
