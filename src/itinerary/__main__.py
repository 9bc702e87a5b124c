"""`python -m itinerary` is the `itinerary` command."""

from itinerary.cli.main import main

if __name__ == "__main__":
    main()
