"""`python -m coda_dspy`."""

from coda_dspy.cli import main

if __name__ == "__main__":
    main()
