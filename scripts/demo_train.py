"""`make demo-train`: trains the quickstart translator and translates sentences it has not seen."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLEARHEAD = str(Path(sys.executable).with_name("clearhead"))
FOLDER = Path("runs/quickstart")
# The test pairs are sorted by length: every 137th gives short and long ones.
STRIDE, EXAMPLES = 137, 5

NEXT = f"""
What to try next:
  .venv/bin/clearhead translate --model {FOLDER} "Where is the station?"
  .venv/bin/clearhead translate --model {FOLDER} --nbest 5 "I am tired."
  .venv/bin/clearhead train --pairs YOUR.en-de.tsv --out runs/mine      train on your own text
  .venv/bin/clearhead train recipes/translation/quickstart.toml --out runs/fr --set data.target=fr \\
      --set 'data.train=["tatoeba-en-fr"]'
  .venv/bin/clearhead --help
The loss curves are in {FOLDER / "curves.png"}. Read on in README.md.
"""


def run(*arguments: str, text: str | None = None) -> str:
    done = subprocess.run(
        [CLEARHEAD, *arguments], cwd=ROOT, input=text, stdout=subprocess.PIPE, encoding="utf-8"
    )
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def main() -> None:
    if not (ROOT / FOLDER / "curves.png").exists():
        say("Training a small English-German translator on Tatoeba sentences: a few minutes on two cores.")
        started = (ROOT / FOLDER / "config.toml").exists()
        what = ["--resume"] if started else ["recipes/translation/quickstart.toml"]
        run("train", *what, "--out", str(FOLDER))
    rows = (ROOT / FOLDER / "test.tsv").read_text(encoding="utf-8").splitlines()
    pairs = [row.split("\t") for row in islice(rows, 0, STRIDE * EXAMPLES, STRIDE)]
    sources = "".join(f"{source}\n" for source, _ in pairs)
    translations = run("translate", "--model", str(FOLDER), text=sources).splitlines()
    say("\nFive sentences it has never seen:")
    for (source, reference), translation in zip(pairs, translations, strict=True):
        say(f"  {source}\n    -> {translation}\n       (reference: {reference})")
    say("\nScores on all held-out sentences:")
    say(run("evaluate", str(FOLDER)).rstrip())
    say(NEXT.rstrip())


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
