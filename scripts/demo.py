"""`make demo`: translates with the built-in model in all its directions and draws an attention."""

import subprocess
import sys
from pathlib import Path
from time import perf_counter

CLEARHEAD = str(Path(sys.executable).with_name("clearhead"))
SENTENCE = "Where is the nearest station?"
# Test files are sorted by length; examples are taken from all over them.
EXAMPLES = 4

NEXT = """
What to try next (after `source .venv/bin/activate`, plain `clearhead` is enough):
  .venv/bin/clearhead translate --to fr "I have never been so tired."
  .venv/bin/clearhead translate --model de-en --nbest 3 "Das ist mir zu teuer."
  .venv/bin/clearhead explain en-de "I am tired." --out pictures/     picture every step inside the model
  .venv/bin/clearhead explore                                         the same in your browser
  .venv/bin/clearhead generate "ROMEO:"                               continue a text in Shakespeare's style
  .venv/bin/clearhead models                                          list the models and their scores
  make demo-train                                                     train a translator in three minutes
  .venv/bin/clearhead train --pairs YOUR.en-de.tsv --out runs/mine    train on your own text
  .venv/bin/clearhead --help
Read on in README.md."""


def main() -> None:
    say(f'$ clearhead translate "{SENTENCE}"')
    start = perf_counter()
    done = subprocess.run([CLEARHEAD, "translate", SENTENCE], stdout=subprocess.PIPE, encoding="utf-8")
    if done.returncode:
        sys.exit(done.returncode)
    say(f"{done.stdout.rstrip()}    ({perf_counter() - start:.1f} s, including starting Python and loading)")
    show()
    draw(Path("attention.png"))
    say(NEXT)


def show() -> None:
    """Translate held-out sentences in every direction."""
    # Imported here so that the timing above is that of a cold start.
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
        chosen = [rows[len(rows) * (2 * number + 1) // (2 * EXAMPLES)] for number in range(EXAMPLES)]
        pairs = [row.split("\t") for row in chosen]
        start = perf_counter()
        translations = model.translate([source for source, _ in pairs], to=direction.target)
        seconds = perf_counter() - start
        say(f"\n{direction}, held-out sentences ({len(pairs)} in {seconds:.2f} s):")
        for (source, reference), translation in zip(pairs, translations, strict=True):
            say(f"  {source}\n    -> {translation}\n       (reference: {reference})")


def draw(path: Path) -> None:
    """Draw which source words each word of a translation attends to."""
    import clearhead

    explanation = clearhead.load("en-de").explain(SENTENCE)
    explanation.save(path)
    say(f"\n{path}: which source words each word of “{explanation.output}” attends to")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
