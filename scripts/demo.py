"""`make demo`: translates with the model in the box, in all its directions, and says what to try next."""

import subprocess
import sys
from pathlib import Path
from time import perf_counter

CLEARHEAD = str(Path(sys.executable).with_name("clearhead"))
SENTENCE = "Where is the nearest station?"
# Of the sentences that were kept from training, from all over the file: it is sorted by length.
SHOWN = 4

NEXT = """
What to try next (`source .venv/bin/activate` makes it plain `clearhead`):
  .venv/bin/clearhead translate --to fr "I have never been so tired."
  .venv/bin/clearhead translate --model de-en --nbest 3 "Das ist mir zu teuer."
  .venv/bin/clearhead explain en-de "I am tired." --out pictures/     every picture of what happens inside
  .venv/bin/clearhead explore                                         the same in the browser
  .venv/bin/clearhead generate "ROMEO:"                               Shakespeare goes on
  .venv/bin/clearhead models                                          which models there are, and how good
  make demo-train                                                     trains a small one, in three minutes
  .venv/bin/clearhead train --pairs YOUR.en-de.tsv --out runs/mine    your own text; sizes itself to it
  .venv/bin/clearhead --help
README.md goes on from here."""


def main() -> None:
    say(f'$ clearhead translate "{SENTENCE}"')
    began = perf_counter()
    done = subprocess.run([CLEARHEAD, "translate", SENTENCE], stdout=subprocess.PIPE, encoding="utf-8")
    if done.returncode:
        sys.exit(done.returncode)
    say(f"{done.stdout.rstrip()}    ({perf_counter() - began:.1f} s, start of Python and load included)")
    show()
    draw(Path("attention.png"))
    say(NEXT)


def show() -> None:
    """SameSegment that were kept from training, in every direction."""
    # Only now: the command before was to be the first to start everything.
    import clearhead
    from clearhead.tasks.translation.directions import file_name
    from clearhead.tasks.zoo import BUILT_IN

    model = clearhead.load("en-de-fr")
    for direction in model.directions:
        rows = (
            (BUILT_IN["en-de-fr"] / file_name("test", direction, model.directions))
            .read_text(encoding="utf-8")
            .splitlines()
        )
        chosen = [rows[len(rows) * (2 * number + 1) // (2 * SHOWN)] for number in range(SHOWN)]
        pairs = [row.split("\t") for row in chosen]
        began = perf_counter()
        translations = model.translate([source for source, _ in pairs], to=direction.target)
        took = perf_counter() - began
        say(f"\n{direction}, pairs kept from its training ({len(pairs)} in {took:.2f} s):")
        for (source, reference), translation in zip(pairs, translations, strict=True):
            say(f"  {source}\n    -> {translation}\n       (a person: {reference})")


def draw(path: Path) -> None:
    """Which words of a translation look at which words of its source, as a picture."""
    import clearhead

    explanation = clearhead.load("en-de").explain(SENTENCE)
    explanation.save(path)
    say(f"\n{path}: where “{explanation.output}” comes from, word by word, in the model's own attention")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
