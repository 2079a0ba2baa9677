"""Several claims measured together: python -m benchmarks.claims [lengths scores …] --processes 12."""

from benchmarks.claims import alignment, gradients, lengths, positions, scores, speed, table3
from benchmarks.claims.claim import main

CLAIMS = (lengths, alignment, scores, table3, gradients, positions, speed)

if __name__ == "__main__":
    main(*(module.CLAIM for module in CLAIMS))
