"""python -m clearhead: the command line, as torchrun -m wants it."""

from clearhead.cli import main

if __name__ == "__main__":
    main()
